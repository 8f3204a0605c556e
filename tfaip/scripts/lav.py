"""`tfaip-lav --export_dir DIR [flags]`: load an exported model and validate it."""

import sys

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.util.text import shorten_text

PROG = "tfaip-lav"
FLAG = "--export_dir"
USAGE = f"""usage: {PROG} {FLAG} DIR [flags]

Load an exported model (best/ or export/ of a run; of a run itself its best) and validate it: its
prediction graph, the whole post-processing, and the evaluator of the scenario, by default on the
data that the training validated on.

  --trust PKG [PKG ...]  {command.TRUST}

{PROG} {FLAG} DIR --help shows the flags of a model (--help all: every one)."""


@command.entry_point(USAGE, "model", FLAG)
def main(directories: list[str], flags: list[str]) -> None:
    """Load a model and validate it."""
    from tfaip.scripts.common.models import evaluate, open_models

    if len(directories) > 1:
        given = shorten_text(" ".join(directories))
        raise UsageError(f"{FLAG} takes one directory, got {given}; tfaip-multi-lav takes several")
    models = open_models(directories, flags)
    args, lav, results = evaluate(
        f"{PROG} {FLAG} {models.paths[0]}", models, lambda params: models.scenario.create_lav(params, models.params)
    )
    command.print_results(results)
    benchmark = lav.benchmark_results.to_dict()
    command.write_results(args.out, {"model": str(models.paths[0]), "results": results, "benchmark": benchmark})


if __name__ == "__main__":
    sys.exit(main())
