"""`tfaip-resume-training OUTPUT_DIR [flags]`: continue a run exactly where it stopped."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.params.trust import top_package
from tfaip.scripts.dryrun import add_dry_run, print_plan
from tfaip.scripts.roof import asks_for_usage, run_command
from tfaip.scripts.stored import load_trainer_params, take_trusted
from tfaip.util.logging import logger
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    from tfaip.trainer.permission import Permission

PROG = "tfaip-resume-training"
USAGE = f"""usage: {PROG} OUTPUT_DIR [flags]

Continue a training where its newest checkpoint stands. OUTPUT_DIR is the directory of the run, its checkpoint
directory, or one checkpoint in it. Flags change params of the run (e.g. --trainer.epochs 20); what changes is printed.

  --dry_run              verify the checkpoint, say what would be done, write nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own

{PROG} OUTPUT_DIR --help shows all flags of the run."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    if asks_for_usage(argv, USAGE, f"which run? expected: {PROG} OUTPUT_DIR [flags]; see {PROG} --help"):
        return
    from tfaip.trainer.permission import read_permission
    from tfaip.trainer.run_directory import RunDirectory, find_run

    root, checkpoint = find_run(Path(argv[0]))
    trusted, flags = take_trusted(argv[1:])
    params_file = RunDirectory(root).params_file
    permission = read_permission(params_file).and_trusted(trusted)
    scenario, stored = load_trainer_params(params_file, permission)
    # The run may have been moved since it was written.
    stored.output_dir = str(root)
    _leave_out_history(stored, root, permission)
    args = _parse(f"{PROG} {argv[0]}", scenario, stored, flags, permission.packages)
    params = args.trainer

    from tfaip.device.devices import prepare_devices
    from tfaip.util.userlogs import user_logs

    prepare_devices(params.device, alone=args.dry_run)
    trainer = scenario.create_trainer(params, restore=True, checkpoint=checkpoint)
    trainer.permission = permission
    if args.dry_run:
        _plan(trainer, scenario)
        return
    with user_logs(scenario, params):
        trainer.train()


def _leave_out_history(stored: Any, root: Path, permission: Permission) -> None:
    """Forget a history outside of the run unless the user has named it: the run would replace that file."""
    name = stored.history_file
    if name is None or Path(name).resolve().is_relative_to(root.resolve()):
        return
    if os.path.abspath(name) != permission.history_file:
        logger(__name__).warning(
            "the history file %s is left alone, since it was not typed for this run: name it with "
            "--trainer.history_file",
            shorten_text(name, 160),
        )
        stored.history_file = None


def _plan(trainer: Any, scenario: Any) -> None:
    """Read the checkpoint, and print how the run would continue."""
    name, done = trainer.check_resume()
    params = trainer.params
    what = f"train nothing: {params.output_dir} has done {done} of {params.epochs} epochs"
    if done < params.epochs:
        what = f"continue {params.output_dir} ({scenario.__name__}) from {name} up to epoch {params.epochs}"
    print_plan(what, f"checkpoints, models and values into {params.output_dir}")


def _parse(prog: str, scenario: Any, stored: Any, flags: Sequence[str], trusted: Sequence[str]) -> Any:
    from tfaip.params.cli import ParamsParser

    parser = ParamsParser(prog, "Continue a training.", [top_package(scenario.__module__), *trusted])
    add_dry_run(parser)
    parser.add_params("trainer", type(stored), default=stored)
    return parser.parse(flags)


if __name__ == "__main__":
    sys.exit(main())
