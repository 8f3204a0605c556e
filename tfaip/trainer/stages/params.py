"""Params of the stages of a training; needs no backend."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, ClassVar

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError
from tfaip.params.types import FieldValues, FunctionName, expected_function, value_text
from tfaip.trainer.pathpatterns import expected_pattern
from tfaip.trainer.transfer.params import TransferParams
from tfaip.util.files import name_problem

MAIN = "main"
"""Name of the stage of the plain params."""
PRETRAINING = "pretraining"
"""First part of the names of stages that the hook `pretraining` gives."""
EPOCH = "epoch"
"""First part of the names of stages that the hook `params_for_epoch` gives."""
_RESERVED = {MAIN: "the plain params", PRETRAINING: "the pretraining", EPOCH: "the stages of params_for_epoch"}

# Those of `tfaip.predict.samplefile` that keep any sample.
SAMPLE_SUFFIXES = (".jsonl", ".npz")


class PredictData(StrEnum):
    """Data of the run that a model is applied to."""

    TRAIN = "train"
    VAL = "val"


def expected_file_name(name: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it can name a file of samples in a stage."""
    problem = name_problem(name)
    if problem is None and not name.endswith(SAMPLE_SUFFIXES):
        problem = "ends with none of them"
    return None if problem is None else f"a file name that ends with {' or '.join(SAMPLE_SUFFIXES)} (it {problem})"


class StageParams(ParamsBase, ABC):
    """Stage of a training; if no class is chosen, a `TrainStage`."""

    __default_choice__: ClassVar[type[StageParams]]

    name: str = option("", "Name of a stage that a program yields; in a list the key", mode="ignore")

    @abstractmethod
    def describe(self) -> str:
        """Return in words what the stage does, for the table of the stages; "" if its params say it."""


class OverridingStage(StageParams):
    """Base of the stages whose params differ from those of the run."""

    overrides: FieldValues = option(
        {},
        "Params of the stage that differ from those of the run, as flag=value without dashes, e.g. "
        "model.units=32 optimizer=SGD",
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


class PredictStage(OverridingStage):
    """Application of the model to data; the predicted samples are written to a file of the stage.

    The model is the one that was trained last, with the averages of its weights, if it has them. The params are those
    of its stage, with the overrides of this one, which may choose other data.
    """

    data: PredictData = option(PredictData.TRAIN, "Data of the run: those of the training or of the validation")
    generator: DataGeneratorParams | None = option(None, "Other data, in the place of those of the run")
    file_name: str = option(
        "predictions.jsonl", "File in the directory of the stage, as tfaip-predict writes it", text=expected_file_name
    )
    include_inputs: bool = option(False, "Also write the inputs of the samples")
    include_targets: bool = option(False, "Also write the targets of the samples")

    def describe(self) -> str:
        data = self.data.value if self.generator is None else type(self.generator).__name__
        return f"apply the model to {data}, write {self.file_name}"


class CallStage(StageParams):
    """Call of a function."""

    function: FunctionName = option(
        FunctionName(""), "module:function to call", required=True, text=expected_function, also={"": "none yet"}
    )
    arguments: dict[str, Any] = option({}, "Further keyword arguments")

    def describe(self) -> str:
        return f"call {self.function}"


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
        if isinstance(self.repetitions, list) and not self.repetitions:
            raise FieldError("repetitions", [], "at least one number")
        if isinstance(self.repetitions, dict) and any(index < 0 for index in self.repetitions):
            raise FieldError("repetitions", self.repetitions, "indices from 0")

    def epochs_of(self, index: int) -> int:
        """Return the number of epochs of the stage with an index, from 0."""
        if isinstance(self.repetitions, int):
            return self.repetitions
        if isinstance(self.repetitions, dict):
            return self.repetitions.get(index, 1)
        return self.repetitions[min(index, len(self.repetitions) - 1)]


def check_stages(stages: Mapping[str, StageParams], epochs: int) -> None:
    """Raise a `FieldError` unless the stages of a list can follow each other, and leave an epoch to the plain params.

    Args:
        stages: `TrainerParams.stages`.
        epochs: the last epoch of the run.
    """
    taken: list[str] = []
    used = 0
    for key, stage in stages.items():
        if not isinstance(stage, StageParams):  # of Python
            raise FieldError("stages", stage, "a stage: TrainStage, PredictStage or CallStage", index=key)
        if stage.name not in ("", key):
            raise FieldError(f"stages.{key}.name", stage.name, f"{key!r}, as in the list")
        check_stage(stage, key, "stages", f"stages.{key}.", taken)
        taken.append(key)
        used += getattr(stage, "epochs", 0)
    if used and used >= epochs:
        raise FieldError("epochs", epochs, f"more than the {used} epochs of the stages, as it counts all of them")


def check_stage(stage: StageParams, name: str, names: str, path: str, taken: Iterable[str]) -> None:
    """Raise a `FieldError` unless a stage has what it needs, and a name that no stage before it has.

    Args:
        stage: the stage.
        name: its name, which is also that of its directory.
        names: field that has the name.
        path: beginning of the paths of its other fields.
        taken: names of the stages before it.
    """
    problem = name_problem(name)
    folded = str(name).casefold()
    if problem is None and folded in _RESERVED:
        problem = f"is that of {_RESERVED[folded]}"
    elif problem is None and any(character in name for character in ".{}= \\"):
        problem = "has a dot, brace, space, backslash or equals sign"
    elif problem is None and folded in (other.casefold() for other in taken):
        problem = "is given twice"  # some file systems do not distinguish Small from small
    if problem is not None:
        raise FieldError(names, name, f"another name of a stage (it {problem})")
    if isinstance(stage, TrainStage) and stage.epochs is None:
        raise FieldError(f"{path}epochs", None, "the number of epochs of the stage")
    if isinstance(stage, CallStage) and not stage.function:
        raise FieldError(f"{path}function", stage.function, "module:function")


def _texts_by_key(values: Mapping[str, Any]) -> dict[str, str]:
    """Return overrides as text, or raise a `FieldError` if a value has another type."""
    texts = {}
    for key, value in values.items():
        try:
            texts[key] = value_text(value)
        except TypeError as error:
            expected = str(error).removeprefix("expected ").partition(", got")[0]
            raise FieldError("overrides", value, expected, index=key) from error
    return texts
