"""`tfaip-multi-lav --export_dirs DIR DIR [flags]`: validate exported models and their vote."""

import sys

from tfaip.scripts.common import command

PROG = "tfaip-multi-lav"
FLAG = "--export_dirs"
USAGE = f"""usage: {PROG} {FLAG} DIR DIR [...] [flags]

Load several exported models of one scenario, validate each of them, and their vote, by default on
the data that the training of the first one validated on. Their pre-processing must be the same. A
dump, and the events for TensorBoard, are those of the vote.

  --trust PKG [PKG ...]  {command.TRUST}

{PROG} {FLAG} DIR DIR --help shows the flags of a model (--help all: every one)."""


@command.entry_point(USAGE, "model", FLAG)
def main(directories: list[str], flags: list[str]) -> None:
    """Load models, validate them and their vote."""
    from tfaip.scripts.common.models import evaluate, open_models

    models = open_models(directories, flags)
    prog = f"{PROG} {FLAG} {' '.join(map(str, models.paths))}"

    scenario, paths = models.scenario, models.paths
    args, _, results = evaluate(
        prog, models, lambda params: scenario.create_multi_lav(params, paths, models.trusted), print_samples=False
    )
    for name, columns in results.items():
        print(name)
        command.print_results(columns)
    command.write_results(args.out, {"results": results})


if __name__ == "__main__":
    sys.exit(main())
