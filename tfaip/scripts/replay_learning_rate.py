"""`tfaip-replay-learning-rate RUN [flags]`: rates of other params with the scores of a run."""

from __future__ import annotations

import sys

from tfaip.scripts.common import command

PROG = "tfaip-replay-learning-rate"
USAGE = f"""usage: {PROG} RUN [flags]

Show the learning rates that other params would have given with the scores of a finished training,
beside its own. RUN is the directory of a run, a history.json, or a learning_rate_file of RETURNN
(which is read, never executed).

  --learning_rate CLASS, --learning_rate.*  the params; of a run, the changes of its own ones
  --png FILE                                the picture as a file (pip install 'tfaip[plot]')
  --trust PKG [PKG ...]                     {command.TRUST}

{PROG} RUN --help shows the flags (--help all: every one)."""


@command.entry_point(USAGE, "run")
def main(name: str, flags: list[str]) -> None:
    """Show the learning rates of other params."""
    from tfaip.scripts.common.replay import replay_rates

    trusted, flags = command.take_trusted(flags)
    replay_rates(f"{PROG} {name}", name, flags, trusted)


if __name__ == "__main__":
    sys.exit(main())
