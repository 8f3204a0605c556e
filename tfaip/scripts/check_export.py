"""`tfaip-check-export DIR [flags]`: whether an exported model is undamaged and its exports compute the same."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.scripts.dryrun import add_dry_run, listed, print_plan
from tfaip.scripts.models import open_verified
from tfaip.scripts.results import check_files, write_results
from tfaip.scripts.roof import asks_for_usage, run_command

PROG = "tfaip-check-export"
USAGE = f"""usage: {PROG} DIR [flags]

Check an exported model (best/ or export/ of a run): its files against its manifest; the SavedModel and every other
format in it against the graph, which is rebuilt from the code of the scenario, on a batch of the data that the training
validated on (random inputs where these are not there). A SavedModel is a program: check only what you trust.

  --batch_size N         samples of the batch (16)
  --tolerance X          allowed difference of an output, relative to its largest value (1e-5)
  --out FILE             write the results as JSON
  --dry_run              check the files, say what would be compared, compare nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own"""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    if asks_for_usage(argv, USAGE, f"which model? expected: {PROG} DIR [flags]; see {PROG} --help"):
        return
    models = open_verified(Path(argv[0]), argv[1:])
    args = _parse(f"{PROG} {argv[0]}", models.flags)
    check_files(out=args.out)

    from tfaip.util.backend import import_backend

    import_backend()
    from tfaip.lav.samplebatch import sample_inputs
    from tfaip.model.formats import FORMATS
    from tfaip.scenario.exported import load_weights
    from tfaip.scenario.modelcheck import check_formats

    scenario, path = models.scenario(models.params), models.paths[0]
    load_weights(scenario, path)
    if args.dry_run:
        found = ", ".join(f"{name}/" for name in FORMATS if (path / name).is_dir()) or "no format"
        print_plan(
            f"compare {found} with the graph of {path} ({models.scenario.__name__}) on {args.batch_size} samples",
            listed(args.out),
        )
        return
    inputs, origin = sample_inputs(scenario, models.training_data, args.batch_size)
    check = check_formats(scenario, path, inputs, args.tolerance)
    _print(check, origin)
    if args.out is not None:
        write_results(args.out, {**check.to_dict(), "data": origin})


def _parse(prog: str, flags: Sequence[str]) -> Any:
    from tfaip.params.cli import ParamsParser

    parser = ParamsParser(prog=prog, description="Check an exported model.")
    parser.add_option("--batch_size", type=int, default=16, help="Samples of the batch that is compared")
    parser.add_option(
        "--tolerance", type=float, default=1e-5, help="Allowed difference of an output, relative to its largest value"
    )
    parser.add_option("--out", type=str | None, help="Write the results as JSON into this file")
    add_dry_run(parser)
    args = parser.parse(flags)
    if args.batch_size < 1:
        raise UsageError(f"--batch_size is {args.batch_size}, expected at least 1")
    if not 0 <= args.tolerance < 1:
        raise UsageError(f"--tolerance is {args.tolerance}, expected a number from 0 to below 1")
    return args


def _print(check: Any, origin: str) -> None:
    from tfaip.util.table import print_table

    versions = ", ".join(f"{name} {version}" for name, version in check.versions.items())
    print(f"{check.model} is as it was written, on {check.backend} ({versions})")
    print_table(["file", "bytes"], [[name, str(size)] for name, size in check.sizes.items()])
    if not check.graphs:
        print("no exported formats (serve/, keras/, onnx/) to compare")
        return
    print(f"compared on a batch of {check.batch_size} ({origin}):")
    print_table(
        ["format", "graph", "inputs", "outputs", "difference", "ms per batch"],
        [
            [c.format, c.graph, _text(c.inputs), _text(c.outputs), f"{c.difference:.1e}", f"{c.latency_ms:.2f}"]
            for c in check.graphs
        ],
    )


def _text(signature: dict[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in signature.items())


if __name__ == "__main__":
    sys.exit(main())
