"""`tfaip-resume-training OUTPUT_DIR [flags]`: continue a run exactly where it stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.util.logging import logger
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    from tfaip.scripts.common.parser import StoredTraining

PROG = "tfaip-resume-training"
USAGE = f"""usage: {PROG} OUTPUT_DIR [flags]

Continue a training from its newest checkpoint. OUTPUT_DIR is the directory of the run, its
checkpoint directory, or one checkpoint in it. Flags change params of the run (e.g. --trainer.epochs
20); the changes are printed. A run that was stopped before its first checkpoint begins again.

  --from_stage NAME      run all stages again from this one on, with the state that it began with
  --dry_run              verify the checkpoint, print what would be done, write nothing
  --trust PKG [PKG ...]  {command.TRUST}

{PROG} OUTPUT_DIR --help shows the flags of the run (--help all: every one)."""


@command.entry_point(USAGE, "run")
def main(name: str, flags: list[str]) -> None:
    """Continue a run."""
    from tfaip.scripts.common.parser import TrainingParser, load_trainer_params
    from tfaip.trainer.run.directory import RunDirectory, find_run

    root, checkpoint = find_run(Path(name))
    trusted, flags = command.take_trusted(flags)
    _require_resumable(RunDirectory(root).params_file)
    stored = load_trainer_params(RunDirectory(root).params_file, trusted)
    # The run may have been moved since it was written.
    stored.params.output_dir = str(root)
    _leave_out_history(stored, root)
    params, packages = stored.params, stored.permission.packages
    parser = TrainingParser(
        f"{PROG} {name}", "Continue a training.", stored.scenario, packages, cls=type(params), default=params
    )
    parser.add_dry_run()
    parser.add_option("--from_stage", type=str | None, help="Run all stages again from this one on")
    args = parser.parse(flags)
    if args.from_stage is not None and checkpoint is not None:
        raise UsageError("--from_stage continues with the state of a stage: give the run instead of a checkpoint")

    from tfaip.components.userlogs import user_logs
    from tfaip.device.devices import prepare_devices
    from tfaip.params.settings import flags_of

    with flags_of(args.trainer, "trainer", "device"):
        prepare_devices(args.trainer.device, alone=args.dry_run)
    trainer = stored.scenario.create_trainer(
        args.trainer, restore=True, checkpoint=checkpoint, from_stage=args.from_stage, permission=stored.permission
    )
    if args.dry_run:
        _plan(trainer, stored.scenario)
        return
    with user_logs(stored.scenario, args.trainer):
        trainer.train()


def _require_resumable(params_file: Path) -> None:
    """Raise if a run was trained by tfaip 1.2, whose checkpoints hold another state."""
    from tfaip.params.stored import is_former
    from tfaip.util.reading import read_json

    if is_former(read_json(params_file)):
        run = shorten_text(str(params_file.parent), 100)
        raise UsageError(
            f"{run} was trained by tfaip 1.2 and cannot be continued; begin a new run with its weights: "
            f"tfaip-train-from-params {run}/{params_file.name} --trainer.output_dir NEW --warmstart.model {run}"
        )


def _leave_out_history(stored: StoredTraining, root: Path) -> None:
    """Forget a history file outside of the run unless the user named it: it would be replaced."""
    name = stored.params.history_file
    if name is None or Path(name).resolve().is_relative_to(root.resolve()):
        return
    if os.path.abspath(name) != stored.permission.history_file:
        logger(__name__).warning(
            "the history file %s is not used, since it was not typed for this run: name it with --trainer.history_file",
            shorten_text(name, 160),
        )
        stored.params.history_file = None


def _plan(trainer: Any, scenario: Any) -> None:
    """Read the checkpoint, and print how the run would continue; try it out if it would begin again."""
    found, params = trainer.check_resume(), trainer.params
    if found is None:
        trainer.dry_run()
        return
    name, done = found
    action = f"train nothing: {params.output_dir} has done {done} of {params.epochs} epochs"
    if done < params.epochs:
        action = f"continue {params.output_dir} ({scenario.__name__}) from {name} up to epoch {params.epochs}"
    command.print_plan(action, f"checkpoints, models and values into {params.output_dir}")


if __name__ == "__main__":
    sys.exit(main())
