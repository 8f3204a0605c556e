"""The parts of a run that all of its stages share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tfaip.device.device_config import Precision
from tfaip.device.devices import Devices
from tfaip.params.fields import FieldAdvice
from tfaip.params.tree import flag_of
from tfaip.trainer.reporting.profiling import Profiler
from tfaip.trainer.run.checkpoint import CheckpointStore
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import TRAIN
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.runparams import Params
from tfaip.trainer.schedules.targets import given_loss_weights
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stages.preview import Preview


@dataclass(frozen=True)
class RunParts:
    """The parts of a run that all of its stages share.

    Args:
        params: the params of the run, with a seed.
        preview: its stages, as far as they are known.
        devices: its devices and processes, whose scope is active.
        stop: the stop request of a signal.
        root: its directory; None: nothing is written.
        output: writes checkpoints, history and models; in other processes than the chief, nothing.
        profiler: traces some batches; None: nothing is profiled.
    """

    params: Params
    preview: Preview
    devices: Devices
    stop: StopRequest
    root: RunDirectory | None
    output: RunOutput
    profiler: Profiler | None = None

    @property
    def directory(self) -> RunDirectory | None:
        """The directory of the run for the process that writes it, the chief; None in the others."""
        return self.root if self.devices.is_chief else None

    def with_precision(self, precision: Precision) -> RunParts:
        """Return the parts for a stage that computes in a precision."""
        if precision is self.devices.precision:
            return self
        return replace(self, devices=replace(self.devices, precision=precision))

    @property
    def has_stages(self) -> bool:
        """True if the run has, or may have, more than its main stage."""
        return self.preview.has_stages

    def weighted_losses(self) -> list[str]:
        """Return the losses that a stage gives a weight: in all stages they have one that can change."""
        names: set[str] = set()
        for stage in self.preview.stages:
            if stage.params is not None:
                names.update(given_loss_weights(stage.params))
        return sorted(names)


def create_parts(
    params: Params,
    preview: Preview,
    directory: RunDirectory | None,
    devices: Devices,
    stop: StopRequest,
) -> RunParts:
    """Return the parts of a run that all its stages share; see `RunParts`.

    Raises:
        FieldError: if something cannot work; its path begins at `params`.
    """
    output = _create_output(params, directory, devices.is_chief)
    profiler = _create_profiler(params, directory if devices.is_chief else None)
    return RunParts(params, preview, devices, stop, directory, output, profiler)


def _create_output(params: Params, directory: RunDirectory | None, is_chief: bool) -> RunOutput:
    """Return the output of a run, which cannot write models before a stage is set up."""
    history_file = None if params.history_file is None else Path(params.history_file)
    if not is_chief:
        # The chief alone writes. Decisions are functions of a history that all processes have.
        return RunOutput(None)
    if directory is None:
        return RunOutput(None, history_file=history_file)
    store = None
    if params.write_checkpoints:
        store = CheckpointStore(directory.checkpoints, params.keep_checkpoints, directory.root)
    return RunOutput(directory, store, history_file=history_file)


def _create_profiler(params: Params, directory: RunDirectory | None) -> Profiler | None:
    if params.profile and params.output_dir is None:
        raise FieldAdvice("profiling writes to the output directory: set {output_dir}", "output_dir")
    if not params.profile or directory is None:
        return None
    first, last = params.profile_steps
    return Profiler(directory.events(TRAIN), first, last, flag_of(params, params.flag_root, "profile_steps"))
