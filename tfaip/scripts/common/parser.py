"""Parser of the flags that follow the argument of a command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from tfaip.backend.environment import BACKENDS, select_backend, set_default
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.params.resolver import Entry
from tfaip.params.sources import Source
from tfaip.scripts.common.command import COMPLETION
from tfaip.util.files import require_directory, require_writable
from tfaip.util.logging import logger
from tfaip.util.reading import read_json
from tfaip.util.text import shorten

if TYPE_CHECKING:
    from tfaip.trainer.run.permission import Permission

# Flags of files and directories that several commands write -> help.
_FILE_FLAGS = {
    "out": "Write the results as JSON to this file",
    "dump": "Write the samples (outputs, targets, meta) to this file, .jsonl (JSON lines), .npz (NumPy) or .csv",
    "png": "Write the picture to this file",
    "tensorboard": "Directory for events of TensorBoard",
}


class CommandParser(ParamsParser):
    """Parser with the flags of files that a command writes, which are checked.

    Args:
        description: what it does, for `--help`.
        trusted: packages that config files may name classes of.
        writes: the files, of "out", "dump", "png" and "tensorboard".
        scenario: class of the scenario, whose options `--help` shows first.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        trusted: Sequence[str] = (),
        writes: Sequence[str] = (),
        scenario: type | None = None,
    ) -> None:
        super().__init__(prog, description, trusted, home=scenario.__module__ if scenario is not None else "")
        self._writes = writes
        for name in writes:
            self.add_option(f"--{name}", type=str | None, help=_FILE_FLAGS[name])
        if "dump" in writes:
            self.add_option("--dump_inputs", help="Write the inputs to --dump too")

    def add_dry_run(self) -> None:
        """Add `--dry_run`."""
        self.add_option("--dry_run", help="Check everything, print what would be done and written, write nothing")

    def offer(self, flags: Sequence[Entry]) -> None:
        """Answer a shell that completes the command line."""
        if COMPLETION in os.environ:
            from tfaip.scripts.common.completion import answer_shell, completions_of

            answer_shell((f"--{entry.flag}", entry.help, completions_of(entry)) for entry in flags)

    def parse(self, argv: Sequence[str], configs: Sequence[Source] = ()) -> SimpleNamespace:
        """Parse a command line, and check that the files can be written."""
        args = super().parse(argv, configs)
        for name in self._writes:
            if getattr(args, name) is not None:
                from tfaip.predict.samplefile import check_target

                checks = {"dump": check_target, "tensorboard": require_directory}
                try:
                    checks.get(name, require_writable)(Path(getattr(args, name)))
                except UsageError as error:
                    raise UsageError(f"--{name} {error}") from error
        if "dump" in self._writes and args.dump_inputs and args.dump is None:
            raise UsageError("--dump_inputs adds to the file of --dump: give --dump FILE, or leave it out")
        return args


class TrainingParser(CommandParser):
    """Parser of the flags of a training, besides those of a command.

    Args:
        prog: as in `CommandParser`.
        description: as in `CommandParser`.
        trusted: packages that config files may name classes of, besides those of the scenario.
        writes: as in `CommandParser`.
        cls: class of the trainer params; None: that of the scenario.
        default: trainer params to start from; None: those of the scenario.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        scenario: Any,
        trusted: Sequence[str] = (),
        writes: Sequence[str] = (),
        cls: type | None = None,
        default: Any = None,
    ) -> None:
        made = None
        if default is None:
            default = made = scenario.default_trainer_params()
        super().__init__(prog, description, [*scenario.declared_packages(made), *trusted], writes, scenario)
        self.add_params("trainer", cls or scenario.trainer_params_cls(), default=default)
        for name in ("progress_bar_mode", "lav_silent"):  # without a group in tfaip 1.2
            self.accept_former(name, f"trainer.{name}")


class StoredTraining(NamedTuple):
    """A training that was stored.

    Args:
        scenario: class that the params name.
        permission: what the file may name, besides tfaip and the scenario's own package.
    """

    scenario: Any
    params: Any
    permission: Permission


def load_trainer_params(path: Path, trusted: Sequence[str]) -> StoredTraining:
    """Load the params of a run; imports no backend."""
    from tfaip.components.loading import load_trusted_scenario, scenario_id_of
    from tfaip.params.stored import load_params
    from tfaip.trainer.run.permission import read_permission

    permission = read_permission(path).and_trusted(trusted)
    content = read_json(path)
    # Only the backend of the run continues it bit for bit. Code of the scenario may import Keras.
    backend = content.get("keras_backend")
    if isinstance(backend, str) and backend in BACKENDS:
        set_default("KERAS_BACKEND", backend)
    select_backend()
    scenario_id = scenario_id_of(content, path)
    scenario = load_trusted_scenario(scenario_id, permission.import_root)
    packages = [*scenario.declared_packages(), *permission.packages]
    params = load_params(path, scenario.trainer_params_cls(), trusted=packages)
    alone = params.device.without_cluster()
    if alone != params.device:  # the author of a file must not choose a host to connect to
        logger(__name__).info(
            "cluster settings in %s are ignored (coordinator %s, %s processes): give them with --device.* or --config",
            path,
            shorten(params.device.coordinator),
            params.device.num_processes,
        )
        params.device = alone
    return StoredTraining(scenario, params, permission)
