"""Params of a training; needs no backend."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.device import DeviceConfigParams
from tfaip.params import ParamsBase, pai_dataclass, pai_meta
from tfaip.params.generics import bound_field
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.directory_names import (
    EXPORT_DIR,
    check_directory_names,
    check_history_file,
    check_output_dir,
    checkpoint_parts,
)
from tfaip.trainer.earlystopping import EarlyStoppingParams
from tfaip.trainer.optimizer import OPTIMIZERS, AdamOptimizer, OptimizerParams
from tfaip.trainer.scheduler import SCHEDULES, ExponentialDecayParams, LearningRateParams
from tfaip.trainer.warmstart import WarmStartParams
from tfaip.util.pathpatterns import compile_pattern
from tfaip.util.text import shorten

TTrain = TypeVar("TTrain", bound=DataGeneratorParams)
TVal = TypeVar("TVal", bound=DataGeneratorParams)


class ProgressBarMode(StrEnum):
    """How the progress of an epoch is shown."""

    AUTO = "auto"
    BAR = "bar"
    PLAIN = "plain"


@pai_dataclass
@dataclass
class TrainerPipelines(ParamsBase):
    """Pipelines of the training and of the validation data."""

    train: DataPipelineParams = field(
        default_factory=DataPipelineParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Training pipeline"),
    )
    val: DataPipelineParams = field(
        default_factory=DataPipelineParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Validation pipeline"),
    )


@pai_dataclass
@dataclass
class TrainerPipelineParamsBase(ParamsBase, Generic[TTrain, TVal]):
    """Where the data of a training comes from; subclass this to build the generators in code."""

    setup: TrainerPipelines = field(default_factory=TrainerPipelines, metadata=pai_meta(fix_dc=True, mode="ssnake"))

    @abstractmethod
    def train_gen(self) -> TTrain:
        """Generator of the training data."""
        raise NotImplementedError

    @abstractmethod
    def val_gen(self) -> TVal | None:
        """Generator of the validation data; None: there is none."""
        raise NotImplementedError

    def lav_gen(self) -> Iterable[DataGeneratorParams]:
        """Generators to load and validate on; default: the one of the validation data."""
        generator = self.val_gen()
        return [] if generator is None else [generator]


@pai_dataclass
@dataclass
class TrainerPipelineParams(TrainerPipelineParamsBase[TTrain, TVal], Generic[TTrain, TVal]):
    """One generator for training, one for validation."""

    train: TTrain = bound_field(pai_meta(mode="ssnake", help="Generator of the training data"))
    val: TVal = bound_field(pai_meta(mode="ssnake", help="Generator of the validation data"))

    def train_gen(self) -> TTrain:
        return self.train

    def val_gen(self) -> TVal | None:
        return self.val


TrainingPipelineGeneratorParams = TrainerPipelineParams

TScenario = TypeVar("TScenario", bound=ScenarioBaseParams)
TGen = TypeVar("TGen", bound=TrainerPipelineParamsBase)


@pai_dataclass
@dataclass
class TrainerParams(ParamsBase, Generic[TScenario, TGen]):
    """Everything that describes a training run."""

    epochs: int = field(default=100, metadata=pai_meta(help="Number of epochs"))
    samples_per_epoch: int = field(
        default=-1, metadata=pai_meta(help="Samples of an epoch (-1: one pass over the training data)")
    )
    scale_epoch_size: float = field(
        default=1.0,
        metadata=pai_meta(help="Factor on the number of samples of an epoch, if samples_per_epoch is -1"),
    )
    output_dir: str | None = field(
        default=None,
        metadata=pai_meta(required=True, help="Directory of the run: log, checkpoints, exported models"),
    )
    overwrite: bool = field(default=False, metadata=pai_meta(mode="flat", help="Replace the run that output_dir holds"))
    val_every_n: int = field(
        default=1, metadata=pai_meta(help="Validate every n epochs, and after the last (0: never)")
    )
    lav_every_n: int = field(
        default=0,
        metadata=pai_meta(help="Load and validate (LAV) every n epochs, and in the first and the last (0: never)"),
    )
    lav_min_epoch: int = field(default=0, metadata=pai_meta(help="No LAV before this epoch"))
    lav_silent: bool = field(default=False, metadata=pai_meta(help="Do not print samples in LAV"))
    write_checkpoints: bool = field(default=True, metadata=pai_meta(help="Write checkpoints, from which to resume"))
    checkpoint_sub_dir: str = field(
        default="checkpoint",
        metadata=pai_meta(
            help="Directory of the checkpoints, in output_dir; several parts are allowed (a/b), a part with {epoch} "
            "is left out: each checkpoint has a directory of its own (epoch_0007)"
        ),
    )
    checkpoint_save_freq: str = field(
        default="epoch",
        metadata=pai_meta(help="'epoch', or a number n: also every n updates within an epoch"),
    )
    keep_checkpoints: int = field(default=2, metadata=pai_meta(help="Number of checkpoints to keep, at least 2"))
    export_best: bool = field(default=True, metadata=pai_meta(help="Export the model whenever it is the best so far"))
    export_final: bool = field(default=True, metadata=pai_meta(help="Export the final model"))
    history_file: str | None = field(
        default=None,
        metadata=pai_meta(
            help="File of the rates and values of all epochs (None: history.json in output_dir); the rates in a file "
            "that exists already are those of a fresh training"
        ),
    )
    random_seed: int | None = field(
        default=None,
        metadata=pai_meta(help="Seed of weights, data order and dropout (None: drawn and stored)"),
    )
    preload_data: bool = field(
        default=False,
        metadata=pai_meta(
            help="Hold training and validation data in memory, behind the processors that give the same in every pass"
        ),
    )
    histogram_every_n: int = field(
        default=0, metadata=pai_meta(help="Write histograms of the weights for TensorBoard every n epochs (0: never)")
    )
    profile: bool = field(
        default=False,
        metadata=pai_meta(help="Trace a part of the training for TensorBoard (pip install 'tfaip[profile]')"),
    )
    profile_steps: list[int] = field(
        default_factory=lambda: [10, 20],
        metadata=pai_meta(
            help="First and last batch to trace, counted from 1; the last one is rounded up to whole executions "
            "(steps_per_execution), as is the first"
        ),
    )
    force_eager: bool = field(default=False, metadata=pai_meta(help="Run eagerly, to debug the model in Python"))
    skip_model_load_test: bool = field(
        default=False,
        metadata=pai_meta(help="Skip exporting, loading and comparing the model before the first epoch"),
    )
    progress_bar_mode: ProgressBarMode = field(
        default=ProgressBarMode.AUTO,
        metadata=pai_meta(help="auto: a bar on a terminal, else plain; plain: only the line per epoch"),
    )
    steps_per_execution: int | None = field(
        default=None,
        metadata=pai_meta(help="Batches per call of the compiled step (None: 16 on tensorflow, 1 on jax)"),
    )
    jit_compile: bool = field(
        default=False,
        metadata=pai_meta(help="Compile with XLA on tensorflow (jax always does, unless force_eager)"),
    )
    train_accum_steps: int = field(
        default=1, metadata=pai_meta(help="Batches per update: the gradient is the mean over them")
    )
    loss_weights: dict[str, float] = field(
        default_factory=dict,
        metadata=pai_meta(
            help="Weights of losses by name, e.g. ctc=0.3, instead of those of the model (0: the loss is only logged)"
        ),
    )
    calc_ema: float = field(
        default=0.0,
        metadata=pai_meta(
            help="Rate of the exponential moving average of the weights, which is validated and exported; in (0, 1), "
            "0: off, -1: chosen automatically"
        ),
    )
    no_train_scope: str | None = field(
        default=None,
        metadata=pai_meta(
            help="Regex on paths of layers that are not trained, nor what is below them; it must match a whole path, "
            "e.g. '.*conv.*'"
        ),
    )
    device: DeviceConfigParams = field(
        default_factory=DeviceConfigParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Devices, precision and processes"),
    )
    warmstart: WarmStartParams = field(
        default_factory=WarmStartParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Weights that a fresh training begins with"),
    )
    early_stopping: EarlyStoppingParams = field(
        default_factory=EarlyStoppingParams, metadata=pai_meta(fix_dc=True, mode="ssnake", help="Early stopping")
    )
    optimizer: OptimizerParams = field(
        default_factory=AdamOptimizer, metadata=pai_meta(mode="ssnake", choices=OPTIMIZERS, help="Optimizer")
    )
    learning_rate: LearningRateParams = field(
        default_factory=ExponentialDecayParams,
        metadata=pai_meta(mode="ssnake", choices=SCHEDULES, help="Learning rate schedule"),
    )
    scenario: TScenario = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Params of the scenario"))
    gen: TGen = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Training and validation data"))

    keras_backend: str | None = field(
        default=None, metadata=pai_meta(mode="ignore", help="Backend that the run was started on (KERAS_BACKEND)")
    )
    import_root: str | None = field(
        default=None, metadata=pai_meta(mode="ignore", help="Directory that the scenario was imported from")
    )

    def __post_init__(self) -> None:
        self._check_at_least("epochs", 1)
        self._check_at_least("val_every_n", 0)
        self._check_at_least("lav_every_n", 0)
        self._check_at_least("lav_min_epoch", 0)
        self._check_at_least("histogram_every_n", 0)
        self._check_at_least("keep_checkpoints", 2)
        self._check_at_least("train_accum_steps", 1)
        if not (0 <= self.calc_ema < 1 or self.calc_ema == -1):
            raise ValueError(
                f"calc_ema is {self.calc_ema}, expected 0, -1, or a rate below 1: change --trainer.calc_ema"
            )
        for name, weight in self.loss_weights.items():
            if not 0 <= weight < float("inf"):
                raise ValueError(
                    f"the weight of the loss {name!r} is {weight}, expected a number from 0: change "
                    "--trainer.loss_weights"
                )
        if self.random_seed is not None and not 0 <= self.random_seed < 2**32:
            raise ValueError(
                f"random_seed is {self.random_seed}, expected a number from 0 below 2^32: change --trainer.random_seed"
            )
        for name in ("output_dir", "history_file"):
            if "\0" in str(getattr(self, name)):
                raise ValueError(
                    f"{name} holds a NUL character: {shorten(getattr(self, name))}: change --trainer.{name}"
                )
        self._check_directories()
        if self.samples_per_epoch != -1:
            self._check_at_least("samples_per_epoch", 1)
        if self.no_train_scope is not None:
            compile_pattern(self.no_train_scope, "--trainer.no_train_scope")
        if len(self.profile_steps) != 2 or not 1 <= self.profile_steps[0] <= self.profile_steps[1]:
            raise ValueError(
                f"profile_steps is {self.profile_steps}, expected two numbers, the first at least 1 and the second not "
                "below it: change --trainer.profile_steps"
            )
        if self.steps_per_execution is not None:
            self._check_at_least("steps_per_execution", 1)
            if self.steps_per_execution >= 2**31:  # Keras counts them in 32 bits
                raise ValueError(
                    f"steps_per_execution is {self.steps_per_execution}, expected a number below 2^31: change "
                    "--trainer.steps_per_execution"
                )
        if not 0 < self.scale_epoch_size < float("inf"):
            raise ValueError(
                f"scale_epoch_size is {self.scale_epoch_size}, expected a finite number above 0: change "
                "--trainer.scale_epoch_size"
            )
        self.checkpoint_every_n_updates()
        self.learning_rate.epochs = self.epochs
        self.learning_rate.check_rates()

    def _check_directories(self) -> None:
        """Raise unless the run writes to its own directory, and each kind of thing to a place of its own."""
        if self.output_dir:  # an empty one is refused where it is used
            check_output_dir(self.output_dir)
        best = self.early_stopping.best_model_name
        check_directory_names(self.checkpoint_sub_dir, best)
        replaced = (checkpoint_parts(self.checkpoint_sub_dir)[0], best, EXPORT_DIR)
        check_history_file(self.history_file, self.output_dir, replaced)

    def checkpoint_every_n_updates(self) -> int | None:
        """The number in `checkpoint_save_freq`; None for "epoch"."""
        if self.checkpoint_save_freq == "epoch":
            return None
        try:
            updates = int(self.checkpoint_save_freq)
        except ValueError:
            updates = 0
        if updates < 1:
            raise ValueError(
                f"checkpoint_save_freq is {self.checkpoint_save_freq!r}, expected 'epoch' or a number of updates above "
                "0: change --trainer.checkpoint_save_freq"
            )
        return updates

    def _check_at_least(self, name: str, minimum: int) -> None:
        value = getattr(self, name)
        if value < minimum:
            raise ValueError(f"{name} is {value}, expected at least {minimum}: change --trainer.{name}")
