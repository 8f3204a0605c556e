"""`tfaip-train SCENARIO [flags]`: train a scenario."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tfaip.params.trust import top_package
from tfaip.scripts.roof import asks_for_usage, run_command
from tfaip.scripts.stored import take_trusted

if TYPE_CHECKING:
    from tfaip.trainer.permission import Permission

PROG = "tfaip-train"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Train a scenario.

SCENARIO  a module or package (pkg.scenario, pkg), with :Class if it defines several scenarios, or a path; the working
          directory belongs to the Python path. A shipped one to try: tfaip.scenario.tutorial.full

  --dry_run              take one batch through everything, say what would be trained, write nothing
  --trust PKG [PKG ...]  packages that a config file may name classes of, besides tfaip and the scenario's own

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
    from tfaip.scenario.loading import import_root, is_given_by_path, load_scenario
    from tfaip.trainer.permission import Permission
    from tfaip.util.backend import select_backend

    select_backend()  # before the code of the scenario, which may import Keras
    trusted, flags = take_trusted(argv[1:])
    scenario = load_scenario(argv[0])
    root = import_root(scenario) if is_given_by_path(argv[0]) else None
    train_with_flags(f"{PROG} {argv[0]}", scenario, flags, Permission(tuple(trusted), root))


def train_with_flags(
    prog: str, scenario: Any, flags: Sequence[str], permission: Permission, default: Any = None
) -> None:
    """Parse the flags of a training and run it.

    Args:
        prog: how the command was called, for messages.
        scenario: the scenario class.
        flags: the command line after the scenario.
        permission: what files may name; recorded with the run.
        default: trainer params to start from; None: those of the scenario.
    """
    from tfaip.params.cli import ParamsParser
    from tfaip.params.help import described

    trusted = [top_package(scenario.__module__), *permission.packages]
    parser = ParamsParser(prog, f"Train {described(scenario)}", trusted)
    parser.add_option("--dry_run", help="Build everything, take one batch through all of it, write nothing, exit")
    default = default if default is not None else scenario.default_trainer_params()
    parser.add_params("trainer", scenario.trainer_params_cls(), default=default)
    args = parser.parse(flags)

    _check_output_dir(args.trainer)

    from tfaip.device.devices import prepare_devices
    from tfaip.util.userlogs import user_logs

    prepare_devices(args.trainer.device)
    with user_logs(scenario, args.trainer):
        trainer = scenario.create_trainer(args.trainer)
        trainer.permission = permission
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

    directory = RunDirectory.of(params)
    if directory is not None and find_cluster(params.device) is None:
        directory.check_free(params.overwrite)


if __name__ == "__main__":
    sys.exit(main())
