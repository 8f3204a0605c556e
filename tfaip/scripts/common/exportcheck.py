"""Check of an exported model: its files, and its formats against the graph; the work of `tfaip-export --check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.export.formatnames import FORMAT_DIRS
from tfaip.util.terminal import print_table
from tfaip.util.text import LINE_LIMIT, shorten_text


def check_export(prog: str, path: Path, flags: Sequence[str]) -> None:
    """Compare the files of a model with its manifest, and its formats with the graph; print and store the results.

    Args:
        prog: how the command was called, for `--help`.
        path: the model, as the user named it.
        flags: the rest of the command line.
    """
    from dataclasses import asdict

    from tfaip.backend.environment import import_backend
    from tfaip.scripts.common.exportedmodels import open_verified
    from tfaip.scripts.common.results import write_results
    from tfaip.util.construction import construct

    models = open_verified(path, flags)
    args = _parse(prog, models.flags)
    import_backend()
    from tfaip.device.devices import precision_scope
    from tfaip.export.modelcheck import check_formats
    from tfaip.export.modelloading import load_weights, precision_of
    from tfaip.export.trainingdata import sample_inputs

    model = models.paths[0]
    with precision_scope(precision_of(model)):
        scenario = construct(models.scenario, models.params)
        load_weights(scenario, model)
    inputs, origin = sample_inputs(scenario, models.training_data, args.batch_size)
    check = check_formats(scenario, model, inputs, args.tolerance)
    _print(check, origin)
    write_results(args.out, {**asdict(check), "data": origin})


def _parse(prog: str, flags: Sequence[str]) -> Any:
    from tfaip.scripts.common.parser import CommandParser

    parser = CommandParser(prog, "Check an exported model.", writes=["out"])
    parser.add_option("--batch_size", type=int, default=16, help="Samples of the batch that is compared")
    parser.add_option("--tolerance", type=float, help="Allowed difference of an output, relative to its largest value")
    args = parser.parse(flags)
    if args.batch_size < 1:
        raise UsageError(f"--batch_size is {args.batch_size}, expected at least 1")
    if args.tolerance is not None and not 0 <= args.tolerance < 1:
        raise UsageError(f"--tolerance is {args.tolerance}, expected a number from 0 to below 1")
    return args


def _print(check: Any, origin: str) -> None:
    versions = ", ".join(f"{name} {version}" for name, version in check.versions.items())
    print(shorten_text(f"{check.model} is as it was written, on {check.backend} ({versions})", LINE_LIMIT))
    print_table(["file", "bytes"], [[shorten_text(name), str(size)] for name, size in check.sizes.items()])
    if not check.graphs:
        print(f"no exported formats ({', '.join(f'{name}/' for name in FORMAT_DIRS)}) to compare")
        return
    print(f"compared on a batch of {check.batch_size} ({origin}):")
    rows = []
    for graph in check.graphs:
        signatures = [_signature(graph.inputs), _signature(graph.outputs)]
        rows.append([graph.format, graph.graph, *signatures, f"{graph.difference:.1e}", f"{graph.latency_ms:.2f}"])
    print_table(["format", "graph", "inputs", "outputs", "difference", "ms per batch"], rows)


def _signature(tensors: dict[str, str]) -> str:
    return ", ".join(f"{name} {spec}" for name, spec in tensors.items())
