"""`tfaip-train-from-params trainer_params.json [flags]`: a new run with the params of another."""

import sys
from pathlib import Path

from tfaip.scripts.common import command
from tfaip.scripts.train import train_with_flags
from tfaip.util.logging import logger
from tfaip.util.text import shorten

PROG = "tfaip-train-from-params"
USAGE = f"""usage: {PROG} trainer_params.json [flags]

Start a new training with the params of another one, changed by flags. The history file is not taken
over, nor is the output directory of a run. A params file that is not that
of a run may name a new directory itself.

  --dry_run              take one batch through everything, print the plan, write nothing
  --trust PKG [PKG ...]  {command.TRUST}

{PROG} trainer_params.json --help shows the flags (--help all: every one)."""


@command.entry_point(USAGE, "params file")
def main(name: str, flags: list[str]) -> None:
    """Train with stored params."""
    from tfaip.scripts.common.parser import load_trainer_params
    from tfaip.trainer.run.directory import RunDirectory

    trusted, flags = command.take_trusted(flags)
    scenario, params, permission = load_trainer_params(Path(name), trusted)
    run = RunDirectory(Path(name).parent)
    if any(path.exists() for path in (run.log_file, run.history_file, run.checkpoints)):
        params.output_dir = None
    elif params.output_dir is not None:
        logger(__name__).info("the output directory is that of the params file: %s", shorten(params.output_dir, 160))
    if params.history_file is not None:
        logger(__name__).info(
            "the history file of the other run is not used: %s; name one with --trainer.history_file",
            shorten(params.history_file, 160),
        )
        params.history_file = None
    train_with_flags(f"{PROG} {name}", scenario, flags, permission, default=params)


if __name__ == "__main__":
    sys.exit(main())
