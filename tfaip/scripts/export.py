"""`tfaip-export DIR --format FORMAT [FORMAT ...]`: write further formats into an exported model."""

from __future__ import annotations

import contextlib
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfaip.errors import UsageError
from tfaip.scripts.dryrun import print_plan, take_dry_run
from tfaip.scripts.models import Models, exported_model, open_verified
from tfaip.scripts.roof import asks_for_usage, run_command
from tfaip.scripts.stored import take_words
from tfaip.util.backend import prefer_backend
from tfaip.util.files import locked_directory, require_creatable
from tfaip.util.text import shorten_text

PROG = "tfaip-export"
USAGE = f"""usage: {PROG} DIR --format FORMAT [FORMAT ...]

Write an exported model (best/ or export/ of a run) in further formats, into its directory. The graph is rebuilt from
the code of the scenario; what is written is loaded and compared with it.

  serve   a SavedModel, for TensorFlow and its servers
  keras   .keras files, for Keras on any backend
  onnx    ONNX files, for onnxruntime and others; written on the TensorFlow backend, whichever one trained the model

  --dry_run              check model and formats, say what would be written, write nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    if asks_for_usage(argv, USAGE, f"which model? expected: {PROG} DIR --format FORMAT; see {PROG} --help"):
        return
    is_dry, flags = take_dry_run(argv[1:])
    formats, flags = take_words("--format", "one of serve, keras, onnx", flags)
    _check(formats)
    if "onnx" in formats:
        prefer_backend("tensorflow")
    path = exported_model(Path(argv[0]))
    with _alone_at(path):
        models = open_verified(path, flags)
        if models.flags:
            raise UsageError(f"unknown flag {models.flags[0]}; see {PROG} --help")
        _write(models, formats, is_dry)


@contextlib.contextmanager
def _alone_at(path: Path) -> Iterator[None]:
    """Hold the directory that a model lies in, as a training holds that of its run.

    Raises:
        UsageError: a process may be about to replace the model.
    """
    from tfaip.scenario.exported import require_model

    require_model(path)
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked_directory(path.resolve().parent))
        except BlockingIOError as error:
            raise UsageError(
                f"{shorten_text(str(path), 120)} may be replaced by another process, which trains or exports there: "
                "wait for its end, or export a copy of the model"
            ) from error
        yield


def _write(models: Models, formats: Sequence[str], is_dry: bool) -> None:
    from tfaip.util.backend import import_backend

    import_backend()
    from tfaip.lav.samplebatch import sample_inputs
    from tfaip.model.formats import BY_COMMAND
    from tfaip.scenario.exported import load_weights
    from tfaip.scenario.modeldirectory import add_formats, create_formats

    scenario, path = models.scenario(models.params), models.paths[0]
    written = ", ".join(f"{path / name}/" for name in formats)
    load_weights(scenario, path)
    if is_dry:
        create_formats(scenario, formats, BY_COMMAND)
        require_creatable(path.resolve())  # a model directory is replaced as a whole
        print_plan(f"convert {path} ({models.scenario.__name__})", written)
        return
    inputs, _ = sample_inputs(scenario, models.training_data, batch_size=4)
    add_formats(scenario, path, formats, inputs)
    print(f"written: {written}")


def _check(formats: Sequence[str]) -> None:
    known = ("serve", "keras", "onnx")
    if not formats:
        raise UsageError(f"which format? expected: --format and one or several of {', '.join(known)}")
    for name in formats:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"--format {shorten_text(name)} is not one of {', '.join(known)}{hint}")


if __name__ == "__main__":
    sys.exit(main())
