"""`tfaip-train-from-params trainer_params.json [flags]`: a new run from the stored params of another one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tfaip.scripts.roof import asks_for_usage, run_command
from tfaip.scripts.stored import load_trainer_params, take_trusted
from tfaip.scripts.train import train_with_flags
from tfaip.util.logging import logger
from tfaip.util.text import shorten

PROG = "tfaip-train-from-params"
USAGE = f"""usage: {PROG} trainer_params.json [flags]

Start a new training with the params of another one, changed by flags. The output directory and the history
file are not taken over: give --trainer.output_dir.

  --dry_run              take one batch through everything, say what would be trained, write nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own

{PROG} trainer_params.json --help shows all flags."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    if asks_for_usage(argv, USAGE, f"which params? expected: {PROG} trainer_params.json [flags]; see {PROG} --help"):
        return
    trusted, flags = take_trusted(argv[1:])
    from tfaip.trainer.permission import read_permission

    permission = read_permission(Path(argv[0])).and_trusted(trusted)
    scenario, stored = load_trainer_params(Path(argv[0]), permission)
    stored.output_dir = None
    if stored.history_file is not None:
        logger(__name__).info(
            "the history file of the other run is left alone: %s; name one with --trainer.history_file",
            shorten(stored.history_file, 160),
        )
        stored.history_file = None
    train_with_flags(f"{PROG} {argv[0]}", scenario, flags, permission, default=stored)


if __name__ == "__main__":
    sys.exit(main())
