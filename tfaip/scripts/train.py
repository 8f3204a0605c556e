"""`tfaip-train SCENARIO [flags]`: train a scenario."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.backend.environment import select_backend
from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.util.logging import logger

if TYPE_CHECKING:
    from tfaip.backend.distributed import Cluster
    from tfaip.trainer.run.permission import Permission

PROG = "tfaip-train"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Train a scenario.

SCENARIO  a module or package (pkg.scenario, pkg), with :Class if it defines several scenarios, or a
          path; the working directory belongs to the Python path. A shipped one to try:
          tfaip.scenario.tutorial.full

  --dry_run              take one batch through everything, print the plan, write nothing
  --summary              print layers, shapes and parameters of the model, train nothing
  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one), --print_config
their values."""


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Train a scenario."""
    from tfaip.components.loading import import_root, is_given_by_path
    from tfaip.components.userlogs import user_logs
    from tfaip.trainer.run.permission import Permission

    trusted, flags = command.take_trusted(flags)
    scenario = open_scenario(name)
    root = import_root(scenario) if is_given_by_path(name) else None
    with user_logs(scenario):
        train_with_flags(f"{PROG} {name}", scenario, flags, Permission(tuple(trusted), root))


def open_scenario(name: str) -> Any:
    """Load the scenario class that a user named; imports no backend, but the scenario may."""
    from tfaip.components.loading import load_scenario

    select_backend()  # before the code of the scenario, which may import Keras
    scenario = load_scenario(name)
    try:
        scenario.trainer_params_cls()
    except TypeError as error:  # a base class, or one that is not finished
        raise UsageError(f"{name} is no scenario to train: {error}") from error
    return scenario


def train_with_flags(
    prog: str, scenario: Any, flags: Sequence[str], permission: Permission, default: Any = None
) -> None:
    """Parse the flags of a training and run it."""
    from tfaip.params.help import described
    from tfaip.scripts.common.parser import TrainingParser

    parser = TrainingParser(prog, f"Train {described(scenario)}", scenario, permission.packages, default=default)
    parser.add_dry_run()
    parser.add_option("--summary", help="Print layers, shapes and parameters of the model, train nothing")
    args = parser.parse(flags)

    from tfaip.components.userlogs import user_logs
    from tfaip.device.devices import find_cluster, prepare_devices
    from tfaip.params.settings import flags_of
    from tfaip.trainer.stages.program import preview_stages

    if not args.summary:
        with flags_of(args.trainer, "trainer"):
            directory = args.trainer.run_directory()
            # The trainer checks it again, with all processes if there are several.
            if directory is not None and find_cluster(args.trainer.device) is None:
                directory.check_free(args.trainer.overwrite)
    preview_stages(args.trainer, scenario)  # what is wrong with them is known before a backend is imported
    with flags_of(args.trainer, "trainer", "device"):
        cluster = prepare_devices(args.trainer.device)
    with user_logs(scenario, args.trainer), ExitStack() as stack:
        if not (args.trainer.output_dir or args.summary or args.dry_run):
            args.trainer.output_dir = stack.enter_context(_new_directory(scenario, cluster))
        trainer = scenario.create_trainer(args.trainer, permission=permission)
        if args.summary:
            print("\n".join(trainer.summary()))
        elif args.dry_run:
            trainer.dry_run()
        else:
            trainer.train()


@contextmanager
def _new_directory(scenario: Any, cluster: Cluster | None) -> Iterator[str]:
    """Yield a directory that the chief creates for a run without one; it is removed again if it stays empty."""
    from tfaip.device.collectives import broadcast
    from tfaip.device.devices import Devices

    devices = Devices() if cluster is None else Devices((), cluster.num_processes, cluster.process_id)
    name = scenario.__name__.removesuffix("Scenario").lower() or "scenario"
    stem = f"runs/{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = stem
    for number in itertools.count(2) if devices.is_chief else ():
        try:
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).mkdir()
            break
        except OSError as error:
            if not os.path.lexists(path):  # for example if `runs` is a file, or a link to nothing
                raise UsageError(f"{path} cannot be created ({error.strerror}): give --trainer.output_dir") from error
            path = f"{stem}-{number}"
    path = broadcast(devices, path)
    logger(__name__).info("run directory %s (--trainer.output_dir names another one)", path)
    try:
        yield path
    finally:
        if devices.is_chief:
            with suppress(OSError):
                Path(path).rmdir()


if __name__ == "__main__":
    sys.exit(main())
