"""Params of the stages of a training; needs no backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, ClassVar

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.params import ParamsBase, option
from tfaip.params.limits import FieldError
from tfaip.params.types import FieldValue, FieldValues, FunctionName, expected_function, flat_values, value_text
from tfaip.trainer.pathpatterns import expected_pattern
from tfaip.trainer.transfer.params import TransferParams
from tfaip.util.paths import name_problem

# As `tfaip.predict.samplefile` has them.
SAMPLE_SUFFIXES = (".jsonl", ".npz")


class PredictData(StrEnum):
    """Data of the run that a model is applied to."""

    TRAIN = "train"
    VAL = "val"


class PredictWeights(StrEnum):
    """Weights of the model that is applied."""

    AVERAGED = "averaged"
    CURRENT = "current"


def expected_file_name(name: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it can name a file of samples in a stage."""
    problem = name_problem(name)
    if problem is None and not name.endswith(SAMPLE_SUFFIXES):
        problem = "ends with none of them"
    return None if problem is None else f"a file name that ends with {' or '.join(SAMPLE_SUFFIXES)} (it {problem})"


class StageParams(ParamsBase, ABC):
    """Stage of a training; if no class is chosen, a `TrainStage`."""

    __default_choice__: ClassVar[type[StageParams]]

    @abstractmethod
    def describe(self) -> str:
        """Return in words what the stage does, for the table of the stages; "" if its params say it."""


class OverridingStage(StageParams):
    """Base of the stages whose params differ from those of the run."""

    overrides: FieldValues = option(
        {},
        "Params of the stage that differ from those of the run, as flag=value without dashes, e.g. "
        "model.units=32 optimizer=SGD; in a RepeatStage also a list with a value per repetition",
        common=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.overrides = _texts_by_key(self.overrides)


class TrainStage(OverridingStage):
    """Training for some epochs with params that differ from those of the run."""

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

    def describe(self) -> str:
        return ""


StageParams.__default_choice__ = TrainStage


class RepeatStage(StageParams):
    """Group of stages that is repeated."""

    times: int = option(1, "Number of repetitions", low=1)
    stages: dict[str, StageParams] = option({}, "Stages of the group by name, in order")

    def describe(self) -> str:
        return f"{self.times} repetitions of {', '.join(self.stages)}"


class PredictStage(OverridingStage):
    """Application of the model to data; the predicted samples are written to a file of the stage.

    The model is the one that was trained last. The params are those of its stage, with the overrides of this one,
    which may choose other data.
    """

    data: PredictData = option(PredictData.TRAIN, "Data of the run: those of the training or of the validation")
    generator: DataGeneratorParams | None = option(None, "Other data, in the place of those of the run")
    weights: PredictWeights = option(
        PredictWeights.AVERAGED, "averaged: the moving average of the weights, if there is one (calc_ema); current"
    )
    file_name: str = option(
        "predictions.jsonl", "File in the directory of the stage, as tfaip-predict writes it", text=expected_file_name
    )
    include_inputs: bool = option(False, "Also write the inputs of the samples")
    include_targets: bool = option(False, "Also write the targets of the samples")
    include_meta: bool = option(True, "Also write the meta data of the samples")

    def describe(self) -> str:
        data = self.data.value if self.generator is None else type(self.generator).__name__
        return f"apply the model ({self.weights.value} weights) to {data}, write {self.file_name}"


class CallStage(StageParams):
    """Call of a function."""

    function: FunctionName = option(
        FunctionName(""),
        "module:function to call",
        required=True,
        text=expected_function,
        also={"": "none yet"},
    )
    arguments: dict[str, Any] = option({}, "Further keyword arguments; texts may say {STAGE.dir} and {repeat}")

    def describe(self) -> str:
        return f"call {self.function}"


class PretrainingParams(ParamsBase):
    """Stages before all others, one for each of some values of params, or those of the scenario's hook."""

    vary: list[str] = option([], "Params to vary, as flags without dashes ([]: those of the scenario's hook, if any)")
    values: list[FieldValue] = option([], "A stage per entry: a value, or a value for each of the varied params")
    repetitions: int | list[int] | dict[int, int] = option(
        1, "Epochs of each stage: for all; a list, whose last number extends; or index=epochs (others: 1)", low=1
    )
    max_epochs: int | None = option(
        None, "Largest number of epochs of the pretraining (None: those of the run; 0: no pretraining)", low=0
    )
    rate_control: bool = option(
        True, "Follow the schedule; False: hold lr, and let no control count the scores of the pretraining"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.values = _texts("values", self.values)
        self._check_values()
        if isinstance(self.repetitions, list) and not self.repetitions:
            raise FieldError("repetitions", [], "at least one number")
        if isinstance(self.repetitions, dict) and any(index < 0 for index in self.repetitions):
            raise FieldError("repetitions", self.repetitions, "indices from 0")

    def _check_values(self) -> None:
        if bool(self.vary) != bool(self.values):
            missing, given = ("values", "vary") if self.vary else ("vary", "values")
            raise FieldError(missing, [], f"at least one entry, as there are {given}", others=[given])
        if len(set(self.vary)) < len(self.vary):
            raise FieldError("vary", self.vary, "each param once")

    def epochs_of(self, index: int) -> int:
        """Return the number of epochs of the stage with an index, from 0."""
        if isinstance(self.repetitions, int):
            return self.repetitions
        if isinstance(self.repetitions, dict):
            return self.repetitions.get(index, 1)
        return self.repetitions[min(index, len(self.repetitions) - 1)]


def _texts_by_key(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return overrides as text, or lists of texts.

    Raises:
        FieldError: if a value has another type.
    """
    texts: dict[str, Any] = {}
    try:
        values = flat_values(values)
    except ValueError as error:
        raise FieldError("overrides", dict(values), f"each param once ({error})") from error
    for key, value in values.items():
        try:
            texts[key] = list(map(value_text, value)) if isinstance(value, list | tuple) else value_text(value)
        except TypeError as error:
            expected = str(error).removeprefix("expected ").partition(", got")[0]
            raise FieldError("overrides", value, expected, index=key) from error
    return texts


def _texts(field: str, values: list[Any]) -> list[str]:
    try:
        return list(map(value_text, values))
    except TypeError as error:
        raise FieldError(field, values, "texts, numbers, or lists of them") from error
