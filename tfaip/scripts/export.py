"""`tfaip-export DIR --format FORMAT [FORMAT ...]`: write further formats into an exported model, or check it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfaip.errors import UsageError
from tfaip.export.formatnames import FORMAT_DIRS
from tfaip.scripts.common import command
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    from tfaip.scripts.common.exportedmodels import Models

PROG = "tfaip-export"
USAGE = f"""usage: {PROG} DIR --format FORMAT [FORMAT ...]
       {PROG} DIR --check [flags]

Write an exported model (best/ or export/ of a run) in further formats, into its directory. The
graph is rebuilt from the code of the scenario; each written format is loaded and compared with it.

  serve   a SavedModel, for TensorFlow and its servers
  keras   .keras files, for Keras on any backend
  onnx    ONNX files, for onnxruntime and others; always written on the TensorFlow backend

--check compares the files of a model with its manifest, and the SavedModel and every other format in
it with the graph, on a batch of the data that the training validated on (random inputs if these are
not available). A SavedModel is a program: check only what you trust.

  --batch_size N         samples of the batch (16)
  --tolerance X          allowed difference of an output, relative to its largest value (1e-5; of models
                         trained in half precision more)
  --out FILE             write the results as JSON

  --trust PKG [PKG ...]  {command.TRUST}"""


@command.entry_point(USAGE, "model", choices={"--format": FORMAT_DIRS, "--check": [], "--trust": []})
def main(name: str, flags: list[str]) -> None:
    """Write further formats of a model, or check it."""
    from tfaip.backend.environment import prefer_backend
    from tfaip.scripts.common.exportcheck import check_export
    from tfaip.scripts.common.exportedmodels import exported_model, open_verified

    formats, flags = command.take_words("--format", f"one of {', '.join(FORMAT_DIRS)}", flags)
    if "--check" in flags:
        if formats:
            raise UsageError("--format compares what it writes, and --check what is there: give one of them")
        check_export(f"{PROG} {name}", Path(name), [flag for flag in flags if flag != "--check"])
        return
    _check_formats(formats)
    if "onnx" in formats:
        prefer_backend("tensorflow")
    path = exported_model(Path(name))
    with _locked(path):
        models = open_verified(path, flags)
        if models.flags:
            raise UsageError(f"unknown flag {models.flags[0]}; see {PROG} --help")
        _write(models, formats)


def _check_formats(formats: Sequence[str]) -> None:
    from tfaip.params.names.suggestions import nearest

    known = ", ".join(FORMAT_DIRS)
    if not formats:
        raise UsageError(f"which format? expected: --format and one or several of {known}, or --check")
    for name in formats:
        if name not in FORMAT_DIRS:
            near = nearest(name, FORMAT_DIRS)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"--format {shorten_text(name)} is not one of {known}{hint}")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the parent directory of a model, as a training holds that of its run.

    Raises:
        UsageError: if another process may be about to replace the model.
    """
    from tfaip.components.scenarioparamsfile import require_model
    from tfaip.util.files import locked_directory

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


def _write(models: Models, formats: Sequence[str]) -> None:
    from tfaip.backend.environment import import_backend

    import_backend()
    from tfaip.export.formats import Advice
    from tfaip.export.modelloading import load_weights
    from tfaip.export.modelwriting import add_formats
    from tfaip.export.trainingdata import sample_inputs
    from tfaip.util.construction import construct

    advice = Advice("leave {} out of --format", "leave {} out of --format")
    scenario, path = construct(models.scenario, models.params), models.paths[0]
    written = ", ".join(f"{path / name}/" for name in formats)
    load_weights(scenario, path)
    inputs, _ = sample_inputs(scenario, models.training_data, batch_size=4)
    add_formats(scenario, path, formats, inputs, advice)
    print(f"written: {written}")


if __name__ == "__main__":
    sys.exit(main())
