"""Params of a training; needs no backend."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import (
    TrainerPipelineParams as TrainerPipelineParams,
    TrainerPipelineParamsBase,
    TrainerPipelines as TrainerPipelines,
    TrainingPipelineGeneratorParams as TrainingPipelineGeneratorParams,
)
from tfaip.device import DeviceConfigParams
from tfaip.model.weightrules import expected_pattern
from tfaip.params import ParamsBase, option, pai_meta
from tfaip.params.fields import FieldError, below
from tfaip.params.settings import RootParams
from tfaip.params.tree import fill_shared
from tfaip.params.types import FunctionName, bound_field, expected_function
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.optimizer import OPTIMIZERS, AdamOptimizer, OptimizerParams
from tfaip.trainer.run import names
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.scheduledvalues import ScheduleParams
from tfaip.trainer.scheduler import SCHEDULES, ExponentialDecayParams, LearningRateParams
from tfaip.trainer.stages.params import PretrainingParams, StageParams
from tfaip.trainer.transferparams import TransferParams
from tfaip.trainer.warmstart import WarmStartParams
from tfaip.util.oldnames import old_names
from tfaip.util.reading import parse_whole_number

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)


class ProgressBarMode(StrEnum):
    """Display of the progress of an epoch."""

    AUTO = "auto"
    BAR = "bar"
    LINES = "lines"
    PLAIN = "plain"

    @classmethod
    def _missing_(cls, value: object) -> ProgressBarMode | None:
        """Return what a number of tfaip 1.2 means: 0 none, 1 a bar where there is a terminal, 2 lines."""
        return {"0": cls.PLAIN, "1": cls.AUTO, "2": cls.LINES}.get(str(value))


class WeightNoiseParams(ParamsBase):
    """Noise normal(0, stddev) on weights in the forward pass of the training; the gradients are taken at them."""

    stddev: float = option(0.0, "Standard deviation (0: no noise)", low=0)
    match: str | None = option(
        None,
        "Regex on paths of weights that get noise; it must match the whole path of a weight or layer (None: all that "
        "are trained)",
        text=expected_pattern,
    )


class WeightPenaltyParams(ParamsBase):
    """Penalty l1 * sum |w| + l2 * sum w^2 on weights, added to the training loss and logged with those of layers."""

    match: str = option(
        "",
        "Regex on paths of weights; it must match the whole path of a weight or layer, e.g. '.*kernel'",
        text=expected_pattern,
    )
    l1: float = option(0.0, "Factor of the absolute values", low=0)
    l2: float = option(0.0, "Factor of the squares", low=0)


TScenario = TypeVar("TScenario", bound=ScenarioBaseParams)
TGen = TypeVar("TGen", bound=TrainerPipelineParamsBase)


class TrainerParams(RootParams, Generic[TScenario, TGen]):
    """Everything that describes a training run."""

    flag_root: ClassVar[str] = "trainer"

    epochs: int = option(100, "Number of epochs", low=1, common=True)
    samples_per_epoch: int = option(
        -1,
        "Samples per epoch (-1: one pass over the training data)",
        low=1,
        also={-1: "one pass over the training data"},
        common=True,
    )
    scale_epoch_size: float = option(
        1.0, "Factor on the number of samples per epoch, if samples_per_epoch is -1", above=0
    )
    # Programs that parse these params may choose it later; commands create one. An empty path is refused by
    # `run_directory`.
    output_dir: str | None = option(
        None,
        "Directory of the run: log, checkpoints, exported models (None: runs/SCENARIO-DATE-TIME; in Python nothing is "
        "written)",
        text=names.expected_directory,
        also={"": "none yet"},
        common=True,
    )
    overwrite: bool = option(False, "Replace the run in output_dir", mode="flat", common=True)
    val_every_n: int = option(1, "Validate every n epochs and after the last (0: never)", low=0, common=True)
    val_silent: bool = option(True, "Print no samples after a validation (False: print_eval_limit of them)")
    lav_every_n: int = option(
        0, "Load and validate (LAV) every n epochs, and in the first and the last (0: never)", low=0, common=True
    )
    lav_min_epoch: int = option(0, "First epoch in which LAV may run", low=0)
    lav_silent: bool = option(True, "Print no samples in LAV (False: print_eval_limit of them)")
    write_checkpoints: bool = option(True, "Write checkpoints to resume from")
    checkpoint_sub_dir: str = option(
        "checkpoint",
        "Name of the directory of the checkpoints in output_dir; a part with {epoch} after it is left out, since "
        "each checkpoint has its own directory (epoch_0007)",
    )
    checkpoint_save_freq: str = option(
        "epoch", "'epoch': write a checkpoint after each epoch; n: also every n updates within an epoch"
    )
    checkpoint_every_s: float = option(
        0.0, "Write a checkpoint also when the last one is so many seconds old (0: never)", low=0
    )
    keep_checkpoints: int = option(2, "Number of checkpoints to keep, at least 2", low=2)
    export_best: bool = option(True, "Export the model whenever it is the best so far")
    export_final: bool = option(True, "Export the final model")
    history_file: str | None = option(
        None,
        "File of the rates and values of all epochs (None: history.json in output_dir); a fresh training uses "
        "the rates of an existing file",
    )
    random_seed: int | None = option(
        None, "Seed of weights, data order and dropout (None: drawn and stored)", low=0, high=2**32 - 1, common=True
    )
    preload_data: bool = option(
        False, "Cache training and validation data in memory after the deterministic processors"
    )
    histogram_every_n: int = option(
        0, "Write histograms of the weights for TensorBoard every n epochs (0: never)", low=0
    )
    log_every_n_updates: int = option(
        0, "Log means over every n updates of an epoch, for TensorBoard and callbacks with on_log (0: never)", low=0
    )
    profile: bool = option(False, "Trace a part of the training for TensorBoard (tensorboard-plugin-profile shows it)")
    profile_steps: list[int] = option(
        [10, 20],
        "First and last batch to trace, counted from 1; both are rounded up to whole executions (steps_per_execution)",
        low=1,
    )
    force_eager: bool = option(False, "Run eagerly, to debug the model in Python")
    debug_nonfinite: bool = option(
        False,
        "Run eagerly, and end at the first operation whose result is not finite, which the message names (tensorflow: "
        "NaN or infinite; jax: NaN)",
    )
    skip_model_load_test: bool = option(False, "Skip exporting, loading and comparing the model before the first epoch")
    progress_bar_mode: ProgressBarMode = option(
        ProgressBarMode.AUTO,
        "auto: a bar on a terminal and in notebooks, else lines; lines: a line per minute; plain: only the row per "
        "epoch (0, 1, 2: plain, auto, lines)",
    )
    # Keras counts them in 32 bits.
    steps_per_execution: int | None = option(
        None,
        "Batches per execution of the compiled step (None: 16 on one device, but 1 where jax has to call each step)",
        low=1,
        high=2**31 - 1,
    )
    jit_compile: bool = option(False, "Compile with XLA on tensorflow (jax always does, unless force_eager)")
    # JAX counts in 32 bits.
    train_accum_steps: int = option(1, "Batches per update; their gradients are averaged", low=1, high=2**31 - 1)
    loss_weights: dict[str, float] = option(
        {}, "Weights of losses by name, e.g. ctc=0.3, instead of those of the model (0: only log the loss)", low=0
    )
    weight_penalties: list[WeightPenaltyParams] = option(
        [], "L1 and L2 penalties on weights by regex on their paths; they add up", mode="ssnake"
    )
    weight_noise: WeightNoiseParams = option(
        help="Noise on weights in the forward pass of the training",
        factory=WeightNoiseParams,
        fix_dc=True,
        mode="ssnake",
    )
    schedules: list[ScheduleParams] = option(
        [], "Values that change in the course of the training, besides the learning rate", mode="ssnake"
    )
    calc_ema: float = option(
        0.0,
        "Rate of the exponential moving average of the weights, which is validated and exported; in (0, 1) "
        "(0: off, -1: automatic)",
        low=0,
        below=1,
        also={-1: "automatic"},
        common=True,
    )
    no_train_scope: str | None = option(
        None,
        "Regex on paths of layers that are not trained, including all layers below them; it must match a "
        "whole path, e.g. '.*conv.*'",
        text=expected_pattern,
        common=True,
    )
    device: DeviceConfigParams = option(
        help="Devices, precision and processes", factory=DeviceConfigParams, fix_dc=True, mode="ssnake"
    )
    warmstart: WarmStartParams = option(
        help="Initial weights of a fresh training", factory=WarmStartParams, fix_dc=True, mode="ssnake"
    )
    early_stopping: EarlyStoppingParams = option(
        help="Early stopping", factory=EarlyStoppingParams, fix_dc=True, mode="ssnake"
    )
    optimizer: OptimizerParams = option(
        help="Optimizer", factory=AdamOptimizer, mode="ssnake", choices=OPTIMIZERS, common=True
    )
    learning_rate: LearningRateParams = option(
        help="Learning rate schedule", factory=ExponentialDecayParams, mode="ssnake", choices=SCHEDULES, common=True
    )
    callbacks: list[FunctionName] = option(
        [],
        "module:Class of Keras callbacks; they are built without arguments, or with those of params and scenario "
        "that they take",
        text=expected_function,
    )
    stages: dict[str, StageParams] = option(
        {}, "Stages before the plain params, in order, by name: e.g. small=TrainStage", mode="ssnake"
    )
    pretraining: PretrainingParams = option(
        help="Stages before all others", factory=PretrainingParams, fix_dc=True, mode="ssnake"
    )
    transfer: TransferParams = option(
        help="Weights that the plain params, and the stages of a pretraining, take over from the stage before",
        factory=TransferParams,
        fix_dc=True,
        mode="ssnake",
    )
    scenario: TScenario = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Params of the scenario"))
    gen: TGen = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Training and validation data"))

    current_epoch: int = option(0, "Epochs that the training has completed, which the trainer writes", mode="ignore")
    keras_backend: str | None = option(None, "Backend that the run was started on (KERAS_BACKEND)", mode="ignore")

    def __post_init__(self) -> None:
        super().__post_init__()
        fill_shared(self, self.scenario, strict=False)
        steps = self.profile_steps
        if len(steps) != 2 or steps[0] > steps[1]:
            raise FieldError("profile_steps", steps, "two numbers, the second at least as large as the first")
        # The run writes to its own directory, and each kind of output to its own place in it.
        names.check_directory_names(self.checkpoint_sub_dir, *self._names_of_best())
        names.check_history_file(self.history_file, self.output_dir)
        self.checkpoint_every_n_updates()
        self.learning_rate.epochs = self.epochs
        with below("learning_rate"):
            LearningRateParams.__post_init__(self.learning_rate)  # checks the epochs of `rates`

    def run_directory(self) -> RunDirectory | None:
        """Return the directory that a training with these params writes to, or None if it writes nothing.

        Raises:
            FieldError: if a name cannot be used.
        """
        if self.output_dir is None:
            return None
        expected = names.expected_directory(self.output_dir)
        if expected is not None:
            raise FieldError("output_dir", self.output_dir, expected)
        return RunDirectory(Path(self.output_dir), self.checkpoint_sub_dir, *self._names_of_best())

    def _names_of_best(self) -> tuple[str, str]:
        """Return the names of the directory of the best model, and of the copy of the params beside it."""
        best = self.early_stopping.best_model_name or self.scenario.default_serve_dir or names.BEST_DIR
        return best, self.scenario.trainer_params_filename

    def checkpoint_every_n_updates(self) -> int | None:
        """Return the number in `checkpoint_save_freq`, or None for "epoch".

        Raises:
            FieldError: if it is neither.
        """
        text = self.checkpoint_save_freq
        updates = parse_whole_number(str(text))
        if text != "epoch" and not updates:
            raise FieldError("checkpoint_save_freq", text, "'epoch' or a number of updates above 0")
        return updates


Params = TrainerParams[Any, Any]
"""Trainer params of any scenario."""
