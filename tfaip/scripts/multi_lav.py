"""`tfaip-multi-lav --export_dirs DIR DIR [flags]`: load several exported models, validate them and their vote."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from tfaip.scripts.lav import callbacks_of, parse_flags, plan
from tfaip.scripts.models import take_models
from tfaip.scripts.results import print_results, write_results
from tfaip.scripts.roof import run_command
from tfaip.util.userlogs import user_logs

PROG = "tfaip-multi-lav"
FLAG = "--export_dirs"
USAGE = f"""usage: {PROG} {FLAG} DIR DIR [...] [flags]

Load several exported models of one scenario, validate each of them, and what they give when they vote, by default on
the data that the training of the first one validated on. Their pre-processing must be the same. A dump, and the events
for TensorBoard, are those of the vote.

  --dry_run              check models and data, say what would be done, write nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own

{PROG} {FLAG} DIR DIR --help shows all flags."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    models = take_models(argv, FLAG, PROG, USAGE, several=True)
    if models is None:
        return
    args, generators = parse_flags(f"{PROG} {FLAG} {' '.join(map(str, models.paths))}", models)
    if args.dry_run:
        plan(args, models, generators)
        return
    lav = models.scenario.create_multi_lav(args.lav, models.paths, models.trusted)
    with ExitStack() as stack:
        stack.enter_context(user_logs(models.scenario, models.params, *generators))
        results = list(lav.run(generators, callbacks_of(args, stack), args.run_eagerly))
    names = [f"lav_l{number}" for number in range(len(results))]
    for name, one in zip(names, results, strict=True):
        print(name)
        print_results(one)
    if args.out is not None:
        write_results(args.out, {"results": dict(zip(names, results, strict=True))})


if __name__ == "__main__":
    sys.exit(main())
