"""Params of the stages of a training; needs no backend."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from enum import StrEnum
from typing import Any, ClassVar

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.errors import UsageError
from tfaip.model.weightrules import expected_pattern
from tfaip.params import ParamsBase, option
from tfaip.params.codec import value_text
from tfaip.params.fields import FieldError
from tfaip.params.types import FieldValues, FunctionByName, FunctionName, expected_function
from tfaip.trainer.transferparams import TransferParams
from tfaip.util.files import name_problem
from tfaip.util.text import shorten

MAIN = "main"
"""Name of the stage of the plain params."""
PRETRAINING = "pretraining"
"""First part of the names of stages that the hook `pretraining` gives."""
EPOCH = "epoch"
"""First part of the names of stages that the hook `params_for_epoch` gives."""
RESERVED = (MAIN, PRETRAINING, EPOCH)


class PredictData(StrEnum):
    """Data of the run that a model is applied to."""

    TRAIN = "train"
    VAL = "val"


CALL_ARGUMENTS = ("params", "directory", "run_directory", "stages", "history", "should_stop")
"""Arguments that the function of a stage may take."""


def expected_file_name(name: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it can name a file of samples in a stage."""
    # `tfaip.predict.samplefile` needs a backend, and its `.csv` holds scalars only.
    is_file = name_problem(name) is None and name.endswith((".jsonl", ".npz"))
    return None if is_file else "a file name that ends with .jsonl or .npz"


class StageParams(ParamsBase, ABC):
    """Stage of a run; if no class is chosen, a `TrainStage`. A kind of stages is a class."""

    __default_choice__: ClassVar[type[StageParams]]
    kind: ClassVar[str]
    trains: ClassVar[bool] = False
    needs_model: ClassVar[bool] = True

    name: str = option("", "Name of a stage that a program yields; in a list the key", mode="ignore")

    @abstractmethod
    def describe(self) -> list[str]:
        """Return in words what the stage does beside its overrides, for the table of the stages."""

    def check(self) -> None:
        """Raise a UsageError unless the stage has what it needs; its values have their types."""

    def num_epochs(self) -> int:
        """Return the number of epochs that it trains."""
        return 0

    def result_file(self) -> str | None:
        """Return the name of the file in its directory that later stages may refer to; None: there is none."""
        return None


class OverridingStage(StageParams, ABC):
    """Base of the stages whose params differ from those of the run."""

    overrides: FieldValues = option(
        {},
        "Params of the stage that differ from those of the run, as flag=value without dashes, e.g. "
        "model.units=32 optimizer=SGD",
        common=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            self.overrides = {key: value_text(value) for key, value in self.overrides.items()}
        except (AttributeError, TypeError) as error:
            raise FieldError("overrides", self.overrides, "a dict of flags and plain values") from error

    def given(self) -> list[tuple[str, str]]:
        """Return the params that differ from those of the run, as flags and texts."""
        return list(self.overrides.items())


class TrainStage(OverridingStage):
    """Training for some epochs with params that differ from those of the run."""

    kind = "train"
    trains = True

    epochs: int | None = option(None, "Number of epochs", low=1, required=True, common=True)
    rate_control: bool = option(
        True, "Follow the schedule; False: hold lr, and let no control count the scores of the stage"
    )
    no_train_scope: str | None = option(
        None,
        "Regex on paths of layers that are not trained in the stage (None: as in the run; empty: train all)",
        text=expected_pattern,
    )
    transfer: TransferParams = option(
        help="Weights that the stage takes over from the one before", factory=TransferParams, fix_dc=True
    )

    def describe(self) -> list[str]:
        held = [] if self.rate_control else ["rate held"]
        return held if self.transfer == TransferParams() else [*held, f"transfer {self.transfer.mode.value}"]

    def check(self) -> None:
        if self.epochs is None:
            raise FieldError(f"stages.{self.name}.epochs", None, "the number of epochs of the stage")

    def given(self) -> list[tuple[str, str]]:
        # An empty scope lifts that of the run.
        own = [] if self.no_train_scope is None else [("no_train_scope", self.no_train_scope or "None")]
        return [*super().given(), *own]

    def num_epochs(self) -> int:
        return self.epochs or 0


StageParams.__default_choice__ = TrainStage


class PredictStage(OverridingStage):
    """Application of the model to data; the predicted samples are written to a file of the stage.

    The model is the one that was trained last, with the averages of its weights, if it has them. The params are those
    of its stage, with the overrides of this one, which may choose other data.
    """

    kind = "predict"

    data: PredictData = option(PredictData.TRAIN, "Data of the run: those of the training or of the validation")
    generator: DataGeneratorParams | None = option(None, "Other data, in the place of those of the run")
    file_name: str = option(
        "predictions.jsonl", "File in the directory of the stage, as tfaip-predict writes it", text=expected_file_name
    )
    include_inputs: bool = option(False, "Also write the inputs of the samples")
    include_targets: bool = option(False, "Also write the targets of the samples")

    def describe(self) -> list[str]:
        data = self.data.value if self.generator is None else type(self.generator).__name__
        return [f"apply the model to {data}, write {self.file_name}"]

    def result_file(self) -> str:
        return self.file_name


class CallStage(StageParams):
    """Call of a function."""

    kind = "call"
    needs_model = False

    function: FunctionName = option(
        FunctionName(""), "module:function to call", required=True, text=expected_function, also={"": "none yet"}
    )
    arguments: dict[str, Any] = option({}, "Further keyword arguments")

    def describe(self) -> list[str]:
        return [f"call {self.function}"]

    def check(self) -> None:
        unknown = sorted(set(self.arguments) - self._load().taken)
        if unknown:
            raise UsageError(f"stage {self.name}: {self.function} takes no argument {', '.join(unknown)}")

    def call(self, given: dict[str, Any]) -> Any:
        """Call the function with its arguments and those of the run; return what it returns, as JSON has it."""
        value = self._load()(**{**given, **self.arguments})
        try:
            return json.loads(json.dumps(value))
        except (TypeError, ValueError) as error:
            returned = f"returned {shorten(value)}, expected a JSON value or None ({error})"
            raise UsageError(f"stage {self.name}: {self.function} {returned}") from error

    def _load(self) -> FunctionByName:
        return FunctionByName(self.function, [*CALL_ARGUMENTS, *self.arguments], f"stages.{self.name}.function")


class PretrainingParams(ParamsBase):
    """Stages before all others, which the hooks `pretraining` and `params_for_epoch` of the scenario give."""

    repetitions: int | list[int] | dict[int, int] = option(
        1, "Epochs of each stage: for all; a list, whose last number extends; or index=epochs (others: 1)", low=1
    )
    max_epochs: int | None = option(
        None, "Largest number of epochs of the pretraining (None: those of the run; 0: none, and no program)", low=0
    )
    rate_control: bool = option(
        True, "Follow the schedule; False: hold lr, and let no control count the scores of the pretraining"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.repetitions == [] or (isinstance(self.repetitions, dict) and min(self.repetitions, default=0) < 0):
            raise FieldError("repetitions", self.repetitions, "at least one number, and indices from 0")

    def epochs_of(self, index: int) -> int:
        """Return the number of epochs of the stage with an index, from 0."""
        if isinstance(self.repetitions, int):
            return self.repetitions
        if isinstance(self.repetitions, dict):
            return self.repetitions.get(index, 1)
        return self.repetitions[min(index, len(self.repetitions) - 1)]
