"""`tfaip-export DIR --format FORMAT [FORMAT ...]`: write further formats into an exported model, or check it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfaip.backend.environment import import_backend, prefer_backend
from tfaip.errors import TfaipError, UsageError, text_with_notes
from tfaip.scripts.common import command
from tfaip.util.classes import construct
from tfaip.util.files import locked_directory
from tfaip.util.manifest import FORMAT_DIRS, read_manifest
from tfaip.util.terminal import print_table
from tfaip.util.text import LINE_LIMIT, shorten_text

if TYPE_CHECKING:
    from tfaip.scripts.common.models import Models

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
    from tfaip.components.modelfiles import require_model
    from tfaip.scripts.common.models import exported_model, open_verified
    from tfaip.scripts.common.parser import CommandParser

    checks = any(flag.partition("=")[0] == "--check" for flag in flags)
    parser = CommandParser(f"{PROG} {name}", "Write further formats of a model.", writes=["out"] if checks else [])
    parser.add_option("--format", type=list[Literal[FORMAT_DIRS]], default=[], help="Formats to write")  # type: ignore[valid-type]
    parser.add_option("--check", help="Check the model")
    if checks:
        parser.add_option("--batch_size", type=int, default=16, help="Samples of the batch that is compared")
        parser.add_option("--tolerance", type=float | None, help="Allowed difference of an output")
    args = parser.parse(flags)
    if args.check:
        if args.format:
            raise UsageError("--format compares what it writes, and --check what is there: give one of them")
        if args.batch_size < 1 or not 0 <= (args.tolerance or 0) < 1:
            given = f"--batch_size is {args.batch_size} and --tolerance {args.tolerance}"
            raise UsageError(f"{given}, expected at least 1, and a number from 0 to below 1")
        _check_export(open_verified(Path(name), flags), args)
        return
    if not args.format:
        raise UsageError(f"which format? expected: --format and one or several of {', '.join(FORMAT_DIRS)}, or --check")
    if "onnx" in args.format:
        prefer_backend("tensorflow")
    path = exported_model(Path(name))
    require_model(path)
    taken = UsageError(
        f"{shorten_text(str(path), 120)} may be replaced by another process, which trains or exports there: "
        "wait for its end, or export a copy of the model"
    )
    with locked_directory(path.resolve().parent, taken):  # as a training holds its run
        _write(open_verified(path, flags), args.format)


def _write(models: Models, formats: Sequence[str]) -> None:
    """Write each format in a commit of its own; a model that has no counterpart in one may have it in another."""
    import_backend()
    from tfaip.export.modelloading import load_weights
    from tfaip.export.modelwriting import add_formats
    from tfaip.export.trainingdata import sample_inputs

    scenario, path = construct(models.scenario, models.params), models.paths[0]
    place = path.resolve()  # the directory is replaced, and with it what `.` means
    load_weights(scenario, path)
    inputs, _ = sample_inputs(scenario, models.training_data, batch_size=4)
    errors: list[TfaipError] = []
    for name in formats:
        try:
            add_formats(scenario, place, [name], inputs)
        except TfaipError as error:
            errors.append(error)
        else:
            print(f"written: {path / name}/", flush=True)
    for further in errors[1:]:
        errors[0].add_note(text_with_notes(further))
    if errors:
        raise errors[0]


def _check_export(models: Models, args: Any) -> None:
    """Compare the files of a model with its manifest, and its formats with the graph; print and store the results."""
    import_backend()
    from tfaip.device.devices import precision_scope
    from tfaip.export.formats import check_formats
    from tfaip.export.modelloading import load_weights, precision_of
    from tfaip.export.trainingdata import sample_inputs

    model = models.paths[0]
    with precision_scope(precision_of(model)):
        scenario = construct(models.scenario, models.params)
        load_weights(scenario, model)
    inputs, origin = sample_inputs(scenario, models.training_data, args.batch_size)
    graphs = check_formats(scenario, model, inputs, args.tolerance)
    manifest = read_manifest(model)
    writer, versions = manifest.get("backend", "an unknown backend"), manifest.get("versions", {})
    shown = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(shorten_text(f"{model} is as it was written, on {writer} ({shown})", LINE_LIMIT))
    if graphs:
        print(f"compared on a batch of {len(next(iter(inputs.values())))} ({origin}):")
        rows = []
        for graph in graphs:
            signatures = [", ".join(map(" ".join, tensors.items())) for tensors in (graph.inputs, graph.outputs)]
            rows.append([graph.format, graph.graph, *signatures, f"{graph.difference:.1e}"])
        print_table(["format", "graph", "inputs", "outputs", "difference"], rows)
    else:
        print(f"no exported formats ({', '.join(f'{name}/' for name in FORMAT_DIRS)}) to compare")
    results = [vars(graph) for graph in graphs]
    command.write_results(
        args.out, {"model": str(model), "backend": writer, "versions": versions, "graphs": results, "data": origin}
    )


if __name__ == "__main__":
    sys.exit(main())
