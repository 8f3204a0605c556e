"""Values other than the learning rate that change in the course of a training (`trainer.schedules`).

What the step reads is a variable, which the step sets when it begins. Data, dropouts and momenta are set when an epoch
begins. Importing this needs no backend.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Container, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldAdvice, FieldError, Limits, below, limits_of
from tfaip.params.tree import Place, children, get_path, is_node, post_init, walk_places
from tfaip.params.types import field_types
from tfaip.trainer.run.names import SCHEDULED_PREFIX
from tfaip.trainer.scheduler.rules import Interpolation, check_points, interpolate
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
        check_points(self.points, self.interpolation)

    def value(self, epochs: float) -> float:
        """Return the value after a (fractional) number of completed epochs."""
        import numpy as np

        return float(interpolate(self.points, self.interpolation, np.float64(epochs), np))


@dataclass(frozen=True)
class Schedule:
    """Schedule of a target.

    Args:
        place: dotted path of its params from the trainer params.
        path: of the target: from the trainer params, or with the prefix `graph.`.
        params: points and interpolation.
        is_whole: True if the target is a whole number.
    """

    place: str
    path: str
    params: ScheduleParams
    is_whole: bool = False

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

    def value_in(self, epoch: int) -> float:
        """Return the value at the beginning of an epoch (from 1), that of a whole number rounded."""
        value = self.params.value(epoch - 1)
        return int(value + 0.5) if self.is_whole else value

    def refused(self, reason: str) -> FieldAdvice:
        """Return the error of a target that cannot be scheduled."""
        field = f"{self.place}.target"
        target = shorten(self.params.target)
        return FieldAdvice(f"{{{field}}} {target} cannot be scheduled{reason}; see docs/schedules.md", field)


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
            made = replace(made, is_whole=_is_whole(params, made))
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


def _is_whole(params: Any, schedule: Schedule) -> bool:
    """Return True if a target in the params is a whole number; raise if there is no number."""
    parent, _, name = schedule.path.rpartition(".")
    try:
        value, node = get_path(params, schedule.path), get_path(params, parent)
    except UsageError as error:
        raise schedule.refused(f": {error}") from error
    cls: Any = type(node)
    declared: Any = field_types(cls).get(name) if is_node(node) else type(value)
    kinds = [kind for kind in (float, int) if kind in (declared, *get_args(declared))]
    if not kinds:
        raise schedule.refused(f": it is no number, but {shorten(value)}")
    return kinds[0] is int


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
        self._targets: list[tuple[Schedule, keras.Variable]] = []
        self._numbers: list[str] = []
        paths = [schedule.path for schedule in self._known if not (schedule.is_of_model or schedule.is_of_epoch)]
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
        known.update(scheduled_values(model))
        objects = objects_of_epochs(model)
        for schedule in self._known:
            if schedule.path not in (objects if schedule.is_of_epoch else known):
                able = {*objects, *(path for path in known if not _OF_OBJECTS.fullmatch(path))}
                names = ", ".join(sorted(map(shown_name, able)))
                log.info("values that can be scheduled: %s", names)  # in full: a command shortens its errors
                is_dropout = schedule.is_of_epoch and schedule.path.startswith(GRAPH)
                made = " (rate is that of a Keras dropout made with one above 0)" if is_dropout else ""
                raise schedule.refused(f"{made}; what can: {names}, and numbers of the training data")
        self._targets = [(schedule, known[schedule.path]) for schedule in self._known if not schedule.is_of_epoch]
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
        return {f"{SCHEDULED_PREFIX}{schedule.name}": float(variable + 0.0) for schedule, variable in self._targets}

    def _assign(self, epochs: Tensor) -> None:
        for schedule, variable in self._targets:
            points = schedule.params
            variable.assign(interpolate(points.points, points.interpolation, epochs, self._ops))


class EpochSchedules:
    """Schedules whose values change between epochs.

    An epoch whose data differ from those of the epoch before begins with a new pass over the data, so that its samples
    are a function of the seed, the pass and the values. Another rate or momentum compiles the step again.

    Args:
        params: the trainer params.
    """

    def __init__(self, params: Any) -> None:
        self._params = params
        schedules = schedules_of(params)
        self._of_data = [schedule for schedule in schedules if schedule.is_of_data]
        self._of_objects = [schedule for schedule in schedules if schedule.is_of_epoch and not schedule.is_of_data]
        self._objects: dict[str, list[Any]] = {}
        self._current: list[float] = []
        self._opened = ExitStack()
        self._changed = ExitStack()

    def params_of(self, epoch: int) -> Any:
        """Return a copy of the trainer params with the values of the data in an epoch; the rest is shared.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        params = self._params
        for schedule in self._of_data:
            params = with_value(params, schedule.path, schedule.value_in(epoch))
        return params

    def params_of_epochs(self) -> Iterator[Any]:
        """Yield the trainer params of each epoch up to the last point, see `params_of`."""
        last = max((max(schedule.params.points) for schedule in self._of_data), default=-1.0)
        for epoch in range(1, int(min(last + 1, self._params.epochs)) + 1):
            yield self.params_of(epoch)

    def close(self) -> None:
        """End the workers of the pipeline, and set rates back."""
        self._opened.close()
        self._changed.close()

    def set_numbers(self, epoch: int, model: TrainingModel) -> None:
        """Set the dropout rates and each momentum of an epoch (from 1)."""
        if self._of_objects and not self._objects:  # before a rate is set to 0
            self._objects = objects_of_epochs(model)
        for schedule in self._of_objects:
            name = schedule.path.rpartition(".")[2]
            value = schedule.value_in(epoch) or (_NO_MOMENTUM if name == "momentum" else 0.0)
            for owner in self._objects[schedule.path]:
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
        values = self._values_of_data(epoch)
        if values == self._current:  # also if nothing is scheduled
            return current
        self._current = values
        self._opened.close()
        changed, data = self.params_of(epoch), scenario.data
        if changed.scenario is not self._params.scenario:
            data = data.with_params(changed.scenario.data)
        return self._opened.enter_context(create(changed, scenario, data))

    def position(self, epoch: int, position: Position) -> Position:
        """Return where an epoch (from 1) begins that follows this position."""
        if epoch == 1 or self._values_of_data(epoch) == self._values_of_data(epoch - 1):
            return position
        return position.next_pass() if position.consumed or position.emitted else position

    def logged(self, epoch: int) -> Logs:
        """Return the values of an epoch by logged name."""
        schedules = [*self._of_data, *self._of_objects]
        return {f"{SCHEDULED_PREFIX}{schedule.name}": float(schedule.value_in(epoch)) for schedule in schedules}

    def _values_of_data(self, epoch: int) -> list[float]:
        return [schedule.value_in(epoch) for schedule in self._of_data]


def objects_of_epochs(model: TrainingModel) -> dict[str, list[Any]]:
    """Return the layers and optimizers of Keras whose rate or momentum epochs set, by the path of the target."""
    import keras

    dropouts = (keras.layers.Dropout, keras.layers.GaussianDropout)  # the spatial ones are derived from the first
    found: dict[str, list[Any]] = {}
    for path, layer in _layers_of(model).items():
        # One that was made with rate 0 has no random generator, and needs it before the model is built.
        if isinstance(layer, dropouts) and layer.rate > 0:
            found[f"{path}.rate"] = [layer]
    for group in model.optimizer.groups:
        if hasattr(group, "momentum"):
            found.setdefault(f"{OPTIMIZER}{group.setup.momentum}", []).append(group)
    return found


def scheduled_values(model: TrainingModel) -> dict[str, ScheduledValue]:
    """Return the numbers that were made with `scheduled`, by the path of the target."""
    found: dict[str, ScheduledValue] = {}
    for path, layer in _layers_of(model).items():
        values = getattr(layer, "scheduled_values", {})
        found.update({f"{path}.{name}": value for name, value in values.items()})
    return {**found, **{f"{MODEL}{name}": value for name, value in model.model_base.scheduled_values.items()}}


def _layers_of(model: TrainingModel) -> dict[str, Any]:
    """Return the graph and all of its layers by the paths with which their targets begin."""
    from tfaip.model.variables import all_layers_by_path

    layers = {"": model.graph, **all_layers_by_path(model.graph)}
    return {f"{GRAPH}{path.replace('/', '.')}".rstrip("."): layer for path, layer in layers.items()}
