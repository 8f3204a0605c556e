"""Values other than the learning rate that change in the course of a training (`trainer.schedules`).

What the step reads is a variable, which the step sets when it begins. Data, dropouts and momenta are set when an epoch
begins. Importing this needs no backend.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Container, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldAdvice, FieldError, Limits, below, limits_of
from tfaip.params.tree import Place, children, get_path, is_node, post_init, walk_places
from tfaip.params.types import field_types
from tfaip.trainer.run.names import SCHEDULED_PREFIX
from tfaip.trainer.scheduler.rules import Interpolation, interpolate
from tfaip.util.logging import logger
from tfaip.util.text import shorten

if TYPE_CHECKING:
    import keras

    from tfaip.data.pipeline.datapipeline import DataPipeline
    from tfaip.data.pipeline.sampler import Position
    from tfaip.model.layerbase import ScheduledValue
    from tfaip.model.trainingmodel import TrainingModel
    from tfaip.util.typing import Logs, Tensor

log = logger(__name__)

GRAPH = "graph."
MODEL = "scenario.model."
OPTIMIZER = "optimizer."
LOSS_WEIGHTS = "loss_weights."
SCHEDULES_FIELD = "schedules"
# Parts of the tree that are read when an epoch begins.
_OF_DATA = ("gen.", "scenario.data.pre_proc.")
_VALIDATION = ("gen.val.", "gen.setup.val.")
# Attributes of objects of Keras that are set then.
_OF_OBJECTS = re.compile(r"graph\..*\.rate|optimizer\.(.*\.)?momentum")
_DROPOUT = Limits(low=0, below=1, finite=True)
_TARGETS = (
    "what can: numbers of graph.*, model.*, loss_weights.*, optimizer.*, weight_noise.*, weight_penalties.*, and with "
    "the next epoch gen.*, setup.train.* and data.pre_proc.*; see docs/schedules.md"
)
# In the place of a momentum of 0, for which Keras would not keep the means of the gradients up to date.
_NO_MOMENTUM = 1e-30


class ScheduleParams(ParamsBase):
    """Values of one number of the training at points in time.

    Time is counted in completed epochs, with fractions: point 5 belongs to the beginning of epoch 6. Before the first
    point the value is that of the first point, after the last one that of the last.
    """

    target: str = option(
        "",
        "What is scheduled: a flag without dashes or a dotted path, e.g. optimizer.clip_global_norm, loss_weights.ctc, "
        "graph.dropout.rate, setup.train.max_element_length (docs/schedules.md lists what can be)",
    )
    points: dict[float, float] = option({}, "Values by number of completed epochs, e.g. 0=1 2.5=0.1", finite=True)
    interpolation: Interpolation = option(
        Interpolation.LINEAR, "Interpolation between two points (step: the value of the earlier one)"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.points or min(self.points) < 0:
            raise FieldError("points", self.points, "numbers of completed epochs, at least 0, with values")
        if self.interpolation is Interpolation.EXPONENTIAL and min(self.points.values()) <= 0:
            expected = "values above 0 for exponential interpolation"
            raise FieldError("points", self.points, expected, others=["interpolation"])

    def value(self, epochs: Any, xp: Any = None) -> Any:
        """Return the value after a (fractional) number of completed epochs.

        Args:
            epochs: a number, or a float32 scalar of the step.
            xp: `keras.ops` in the step; None: NumPy.
        """
        if xp is None:
            import numpy as np

            return float(interpolate(self.points, self.interpolation, np.float64(epochs), np))
        return interpolate(self.points, self.interpolation, epochs, xp)


@dataclass(frozen=True)
class Schedule:
    """Schedule of a target.

    Args:
        place: dotted path of its params from the trainer params.
        path: of the target: from the trainer params, or with the prefix `graph.`.
        params: points and interpolation.
    """

    place: str
    path: str
    params: ScheduleParams

    @property
    def name(self) -> str:
        """The target as messages, logs and the history name it."""
        return shown_name(self.path)

    @property
    def is_of_data(self) -> bool:
        """True if the data of an epoch depend on it."""
        return self.path.startswith(_OF_DATA)

    @property
    def is_of_model(self) -> bool:
        """True if only the model knows its target."""
        return self.path.startswith((GRAPH, MODEL, LOSS_WEIGHTS))

    @property
    def is_of_epoch(self) -> bool:
        """True if it is set at the beginning of an epoch: data, the rate of a dropout of Keras, a momentum."""
        return self.is_of_data or _OF_OBJECTS.fullmatch(self.path) is not None

    def refused(self, text: str) -> FieldAdvice:
        """Return the error of a target that cannot be scheduled."""
        field = f"{self.place}.target"
        return FieldAdvice(f"{{{field}}} {shorten(self.params.target)} cannot be scheduled{text}", field)


def shown_name(path: str) -> str:
    """Return the name of a target in messages, logs and the history: as its flag, without `trainer.`."""
    return path.removeprefix("scenario.").removeprefix("gen.setup.")


def schedules_of(params: Any) -> list[Schedule]:
    """Return the schedules of a training.

    Raises:
        FieldError: if two have the same target, or a target or a value is not allowed; the path begins at `params`.
    """
    found: dict[str, Schedule] = {}
    for index, schedule in enumerate(params.schedules):
        made = Schedule(f"{SCHEDULES_FIELD}.{index}", path_of(params, schedule.target), schedule)
        if not made.is_of_model:
            _type_of(params, made)
        with below(made.place):
            if made.path in found:
                raise FieldError("target", schedule.target, "a target that no other schedule has")
            if made.path.startswith(_VALIDATION):
                raise FieldError("target", schedule.target, "no value of the validation data, which stay the same")
            is_dropout = made.is_of_epoch and made.path.startswith(GRAPH)
            limits = _DROPOUT if is_dropout else _limits(params, made.path)
            for epochs, value in schedule.points.items():
                if made.is_of_epoch and epochs % 1:
                    expected = f"whole epochs, since {made.name} is set at the beginning of an epoch"
                    raise FieldError("points", epochs, expected, index=epochs)
                if limits is not None and (wanted := limits.expected(value)) is not None:
                    raise FieldError("points", value, wanted, index=epochs)
        found[made.path] = made
    return list(found.values())


def given_loss_weights(params: Any) -> dict[str, float]:
    """Return the weights of losses that the training gives, those with a schedule as 1."""
    paths = [schedule.path for schedule in schedules_of(params)]
    names = [path.removeprefix(LOSS_WEIGHTS) for path in paths if path.startswith(LOSS_WEIGHTS)]
    return {**params.loss_weights, **dict.fromkeys(names, 1.0)}


def schedules_without(params: Any, targets: Collection[str]) -> list[ScheduleParams]:
    """Return the params of the schedules that remain if values are given for some targets, e.g. by a stage.

    Args:
        targets: flags without dashes or paths; one of a node also stands for all values below it.
    """
    paths = tuple(f"{path_of(params, target)}." for target in targets)
    return [schedule.params for schedule in schedules_of(params) if not f"{schedule.path}.".startswith(paths)]


def path_of(params: Any, target: str) -> str:
    """Return the path that a target means: a flag, a path, or one of them with a part that is no field."""
    if target.startswith(GRAPH):
        return target
    paths: dict[str, str] = {}
    root = type(params).flag_root
    for place, _ in walk_places(params, Place.of_root(root)):
        path = place.path.removeprefix(root).removeprefix(".")
        # The path, its ends that messages, logs and documents show, and the flag.
        for name in (path, path.removeprefix("gen."), path.removeprefix("scenario."), place.flag):
            paths.setdefault(name, path)
    known, rest = _split_known(target, paths)
    return f"{paths.get(known, '')}{rest}".lstrip(".")


def _split_known(name: str, known: Container[str]) -> tuple[str, str]:
    """Return the longest beginning of a dotted name that is known, and the rest, which begins with a dot.

    The beginning of a name that is not known is empty, and the rest is the name.
    """
    beginning, rest = name, ""
    while beginning and beginning not in known:
        beginning, dot, last = beginning.rpartition(".")
        rest = f"{dot}{last}{rest}"
    return beginning, rest


def _limits(params: Any, path: str) -> Limits | None:
    value, found = params, None
    for part in path.split("."):
        if is_node(value):  # an item of a list or a dict has the limits of the field
            found = limits_of(type(value), part)
        value = (children(value) or {}).get(part)
    return found


def _type_of(params: Any, schedule: Schedule) -> type[int] | type[float]:
    """Return the type of the number that is a target in the params; raise if there is none."""
    parent, _, name = schedule.path.rpartition(".")
    try:
        value, node = get_path(params, schedule.path), get_path(params, parent)
    except UsageError as error:
        raise schedule.refused(f" ({_TARGETS}): {error}") from error
    cls: Any = type(node)
    declared: Any = field_types(cls).get(name) if is_node(node) else type(value)
    for kind in (float, int):
        if kind in (declared, *get_args(declared)):
            return kind
    raise schedule.refused(f" ({_TARGETS}): it is no number, but {shorten(value)}")


def with_value(owner: Any, path: str, value: Any) -> Any:
    """Return a copy of a node or container with a value at a path; the node of the value is checked again."""
    name, _, rest = path.partition(".")
    copied = copy.copy(owner)
    with below(name):
        if not is_node(owner):
            key: Any = int(name) if isinstance(owner, list) else name
            copied[key] = with_value(owner[key], rest, value) if rest else value
            return copied
        changed = with_value(getattr(owner, name), rest, value) if rest else value
        object.__setattr__(copied, name, changed)
    if not is_node(changed):
        post_init(copied)
    return copied


class StepSchedules:
    """Schedules whose values are variables that the step assigns when it begins.

    So a value is the same for any number of steps per execution, nothing is compiled again, and nothing is stored.

    Args:
        params: the trainer params.
    """

    _model: TrainingModel

    def __init__(self, params: Any) -> None:
        import keras

        self._ops = keras.ops
        self._known = [schedule for schedule in schedules_of(params) if not schedule.is_of_data]
        self._schedules = [schedule for schedule in self._known if not schedule.is_of_epoch]
        self._targets: list[keras.Variable] = []
        self._numbers: list[str] = []
        paths = [schedule.path for schedule in self._schedules if not schedule.is_of_model]
        self.variables = {path: keras.Variable(0.0, trainable=False, dtype="float32") for path in paths}
        """Variables in the place of numbers of the trainer params, by path; model and optimizer have to own them."""

    def number(self, path: str, value: Any) -> Any:
        """Return a number of the trainer params that the step reads: the variable of its schedule, or the value.

        Whatever is read with this method can be scheduled.
        """
        self._numbers.append(path)
        return self.variables.get(path, value)

    def bind(self, model: TrainingModel) -> None:
        """Let the step of a model, compiled with the variables, follow the schedules.

        Raises:
            FieldAdvice: if there is no such target; its path begins at the trainer params.
        """
        known: dict[str, Any] = {path: self.variables.get(path) for path in self._numbers}
        known.update({f"{LOSS_WEIGHTS}{name}": model.loss_weights.get(name) for name in model.loss_names})
        known.update(dict.fromkeys(objects_of_epochs(model)))
        known.update(scheduled_values(model))
        for schedule in self._known:
            if schedule.path not in known:
                names = ", ".join(sorted(map(shown_name, known)))
                log.info("values that can be scheduled: %s", names)  # in full: a command shortens its errors
                is_dropout = schedule.is_of_epoch and schedule.path.startswith(GRAPH)
                made = " (the layer must be made with a rate above 0)" if is_dropout else ""
                of_data = "with the next epoch numbers of gen.*, setup.train.* and data.pre_proc.*"
                raise schedule.refused(f"{made}; what can: {names}; {of_data}")
        self._targets = [known[schedule.path] for schedule in self._schedules]
        self._model = model
        if self._targets or model.noise is not None:
            model.follow(self)

    def begin_step(self) -> None:
        """Set the values of an update, inside of the compiled step."""
        model, optimizer = self._model, self._model.optimizer
        self._assign(optimizer.schedule.completed_epochs(optimizer.batch_counter + 0))
        if model.noise is not None:
            model.noise.begin_update(optimizer.update_number)

    def end_epoch(self) -> Logs:
        """Set the values of the last update that was trained, which a validation has; return them by logged name."""
        # Computed here, not in the step, whose last bit may differ: a run that resumes after the last batch has not
        # executed it.
        optimizer = self._model.optimizer
        self._assign(optimizer.schedule.completed_epochs(optimizer.batches - 1))
        named = zip(self._schedules, self._targets, strict=True)
        return {f"{SCHEDULED_PREFIX}{schedule.name}": float(variable + 0.0) for schedule, variable in named}

    def _assign(self, epochs: Tensor) -> None:
        for schedule, variable in zip(self._schedules, self._targets, strict=True):
            variable.assign(schedule.params.value(epochs, self._ops))


class EpochSchedules:
    """Schedules whose values change between epochs.

    An epoch whose data differ from those of the epoch before begins with a new pass over the data, so that its samples
    are a function of the seed, the pass and the values. Another rate or momentum compiles the step again.

    Args:
        params: the trainer params.
    """

    def __init__(self, params: Any) -> None:
        self._params = params
        self._schedules = [schedule for schedule in schedules_of(params) if schedule.is_of_epoch]
        of_data = [schedule for schedule in self._schedules if schedule.is_of_data]
        self._whole = {schedule.path for schedule in of_data if _type_of(params, schedule) is int}
        self._data: dict[str, float] = {}
        self._objects: Mapping[str, list[Any]] | None = None
        self._opened = ExitStack()
        self._changed = ExitStack()

    def values(self, epoch: int) -> dict[str, float]:
        """Return all values of an epoch (from 1) by path, whole numbers of the data rounded."""
        values = {schedule.path: schedule.params.value(epoch - 1) for schedule in self._schedules}
        return {path: int(value + 0.5) if path in self._whole else value for path, value in values.items()}

    def params_of(self, epoch: int) -> Any:
        """Return a copy of the trainer params with the values of the data in an epoch; the rest is shared.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        params = self._params
        for path, value in self._of_data(epoch).items():
            params = with_value(params, path, value)
        return params

    def params_of_epochs(self) -> Iterator[Any]:
        """Yield the trainer params of each epoch up to the last point, see `params_of`."""
        last = max((max(schedule.params.points) for schedule in self._schedules), default=-1.0)
        for epoch in range(1, int(min(last + 1, self._params.epochs)) + 1):
            yield self.params_of(epoch)

    def close(self) -> None:
        """End the workers of the pipeline, and set rates back."""
        self._opened.close()
        self._changed.close()

    def set_numbers(self, epoch: int, model: TrainingModel) -> None:
        """Set the dropout rates and each momentum of an epoch (from 1)."""
        if self._objects is None:
            self._objects = objects_of_epochs(model)
        for path, number in self.values(epoch).items():
            name = path.rpartition(".")[2]
            value = number or (_NO_MOMENTUM if name == "momentum" else 0.0)
            for owner in () if path.startswith(_OF_DATA) else self._objects[path]:
                before = getattr(owner, name)
                if value != before:
                    self._changed.callback(setattr, owner, name, before)
                    self._changed.callback(model.forget_compiled_steps)
                    setattr(owner, name, value)
                    model.forget_compiled_steps()

    def pipeline(
        self, epoch: int, current: DataPipeline, scenario: Any, create: Callable[[Any, Any, Any], DataPipeline]
    ) -> DataPipeline:
        """Return the pipeline of an epoch, opened.

        Args:
            current: the pipeline of the epoch before, or of the params.
            create: creates one of trainer params, scenario and data.
        """
        values = self._of_data(epoch)
        if values == self._data:  # also if nothing is scheduled
            return current
        self._data = values
        self._opened.close()
        changed, data = self.params_of(epoch), scenario.data
        if changed.scenario is not self._params.scenario:
            data = data.with_params(changed.scenario.data)
        return self._opened.enter_context(create(changed, scenario, data))

    def position(self, epoch: int, position: Position) -> Position:
        """Return where an epoch (from 1) begins that follows this position."""
        if epoch == 1 or self._of_data(epoch) == self._of_data(epoch - 1):
            return position
        started = position.consumed > 0 or position.emitted > 0
        number = position.pass_index + 1 if started else position.pass_index
        return replace(position, pass_index=number, consumed=0, emitted=0, pending=())

    def logged(self, epoch: int) -> Logs:
        """Return the values of an epoch by logged name."""
        return {f"{SCHEDULED_PREFIX}{shown_name(path)}": float(value) for path, value in self.values(epoch).items()}

    def _of_data(self, epoch: int) -> dict[str, float]:
        return {path: value for path, value in self.values(epoch).items() if path.startswith(_OF_DATA)}


def objects_of_epochs(model: TrainingModel) -> dict[str, list[Any]]:
    """Return the layers and optimizers of Keras whose rate or momentum epochs set, by the path of the target."""
    import keras

    dropouts = (keras.layers.Dropout, keras.layers.GaussianDropout)  # the spatial ones are derived from the first
    found: dict[str, list[Any]] = {}
    for path, layer in _layers_of(model).items():
        # One that was made with rate 0 has no random generator, and needs it before the model is built.
        if isinstance(layer, dropouts) and layer.rate > 0:
            found[_graph_path(path, "rate")] = [layer]
    for group in model.optimizer.groups:
        if hasattr(group, "momentum"):
            found.setdefault(f"{OPTIMIZER}{group.setup.momentum}", []).append(group)
    return found


def scheduled_values(model: TrainingModel) -> dict[str, ScheduledValue]:
    """Return the numbers that were made with `scheduled`, by the path of the target."""
    found: dict[str, ScheduledValue] = {}
    for path, layer in {"": model.graph, **_layers_of(model)}.items():
        values = getattr(layer, "scheduled_values", {})
        found.update({_graph_path(path, name): value for name, value in values.items()})
    return {**found, **{f"{MODEL}{name}": value for name, value in model.model_base.scheduled_values.items()}}


def _layers_of(model: TrainingModel) -> dict[str, Any]:
    from tfaip.model.variables import all_layers_by_path

    return all_layers_by_path(model.graph)


def _graph_path(path: str, name: str) -> str:
    return GRAPH + f"{path}/{name}".lstrip("/").replace("/", ".")
