"""`tfaip-train SCENARIO [flags]`: train a scenario."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfaip.scripts.roof import asks_for_usage, run_command

PROG = "tfaip-train"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Train a scenario.

SCENARIO  a module or package (pkg.scenario, pkg), with :Class if it defines several scenarios, or a path; the working
          directory belongs to the Python path. A shipped one to try: tfaip.scenario.tutorial.full

{PROG} SCENARIO --help shows all flags of a scenario; {PROG} SCENARIO --print_config their values."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    missing = f"which scenario? expected: {PROG} SCENARIO [flags]; see {PROG} --help"
    if argv:
        missing = f"the scenario comes first: {PROG} SCENARIO {argv[0]} ...; see {PROG} --help"
    if asks_for_usage(argv, USAGE, missing):
        return
    from tfaip.scenario.loading import load_scenario
    from tfaip.util.backend import select_backend

    select_backend()  # before the code of the scenario, which may import Keras
    train_with_flags(f"{PROG} {argv[0]}", load_scenario(argv[0]), argv[1:])


def train_with_flags(prog: str, scenario: Any, flags: Sequence[str], default: Any = None) -> None:
    """Parse the flags of a training and run it.

    Args:
        prog: how the command was called, for messages.
        scenario: the scenario class.
        flags: command line behind the scenario.
        default: trainer params to start from; None: those of the scenario.
    """
    from tfaip.params.cli import ParamsParser
    from tfaip.params.help import described

    parser = ParamsParser(prog=prog, description=f"Train {described(scenario)}")
    parser.add_option("--dry_run", help="Build everything, take one batch through all of it, write nothing, exit")
    default = default if default is not None else scenario.default_trainer_params()
    parser.add_params("trainer", scenario.trainer_params_cls(), default=default)
    args = parser.parse(flags)

    if not args.dry_run:
        _check_output_dir(args.trainer)

    from tfaip.device.devices import prepare_devices

    prepare_devices(args.trainer.device)
    trainer = scenario.create_trainer(args.trainer)
    if args.dry_run:
        trainer.dry_run()
    else:
        trainer.train()


def _check_output_dir(params: Any) -> None:
    """Whether a process that trains alone may use its output directory, told before a backend is imported.

    The trainer checks it again, and for several processes alone: all of them must hear of it.
    """
    from tfaip.device.cluster import find_cluster
    from tfaip.trainer.run_directory import RunDirectory

    if params.output_dir is not None and find_cluster(params.device) is None:
        RunDirectory(Path(params.output_dir)).check_free(params.overwrite)


if __name__ == "__main__":
    sys.exit(main())
