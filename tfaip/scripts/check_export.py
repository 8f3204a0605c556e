"""`tfaip-check-export DIR [flags]`: check the files and formats of an exported model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.export.formatnames import FORMAT_DIRS
from tfaip.scripts.common import command
from tfaip.util.terminal import print_table
from tfaip.util.text import LINE_LIMIT, shorten_text

PROG = "tfaip-check-export"
USAGE = f"""usage: {PROG} DIR [flags]

Check an exported model (best/ or export/ of a run): its files against its manifest; the SavedModel
and every other format in it against the graph, which is rebuilt from the code of the scenario, on a
batch of the data that the training validated on (random inputs if these are not available). A
SavedModel is a program: check only what you trust.

  --batch_size N         samples of the batch (16)
  --tolerance X          allowed difference of an output, relative to its largest value (1e-5; of models
                         trained in half precision more)
  --out FILE             write the results as JSON
  --dry_run              check the files, print what would be compared, compare nothing
  --trust PKG [PKG ...]  {command.TRUST}"""


@command.entry_point(USAGE, "model", choices={"--dry_run": [], "--trust": []})
def main(name: str, flags: list[str]) -> None:
    """Check an exported model."""
    from dataclasses import asdict

    from tfaip.backend.selection import import_backend
    from tfaip.scripts.common.exportedmodels import open_verified
    from tfaip.scripts.common.results import write_results
    from tfaip.util.construction import construct

    models = open_verified(Path(name), flags)
    args = _parse(f"{PROG} {name}", models.flags)
    import_backend()
    from tfaip.device.devices import precision_scope
    from tfaip.export.formats import FORMATS
    from tfaip.export.modelcheck import check_formats
    from tfaip.export.modelloading import load_weights, precision_of
    from tfaip.export.trainingdata import sample_inputs

    path = models.paths[0]
    with precision_scope(precision_of(path)):
        scenario = construct(models.scenario, models.params)
        load_weights(scenario, path)
    if args.dry_run:
        found = ", ".join(f"{name}/" for name in FORMATS if (path / name).is_dir()) or "no format"
        reference = f"the graph of {path} ({models.scenario.__name__}) on {args.batch_size} samples"
        command.print_plan(f"compare {found} with {reference}", command.listed(args.out))
        return
    inputs, origin = sample_inputs(scenario, models.training_data, args.batch_size)
    check = check_formats(scenario, path, inputs, args.tolerance)
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


if __name__ == "__main__":
    sys.exit(main())
