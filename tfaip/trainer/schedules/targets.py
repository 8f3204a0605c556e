"""Targets of schedules: what a name of the user means, its values, and those of each epoch; needs no backend."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Container, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldAdvice, FieldError, Limits, below, limits_of
from tfaip.params.tree import Place, children, get_path, is_node, post_init, walk_places
from tfaip.params.types import field_types
from tfaip.trainer.scheduler.rules import Interpolation, interpolate
from tfaip.util.text import shorten

GRAPH = "graph."
MODEL = "scenario.model."
OPTIMIZER = "optimizer."
LOSS_WEIGHTS = "loss_weights."
SCHEDULES_FIELD = "schedules"
# Parts of the tree that are read when an epoch begins.
_OF_DATA = ("gen.", "scenario.data.pre_proc.")
_VALIDATION = ("gen.val.", "gen.setup.val.")
INPUT_GRADIENT_PATH = "scenario.input_gradient_regularization_lambda"
_OF_PARAMS = re.compile(
    r"weight_noise\.stddev|weight_penalties\.\d+\.(l1|l2)|optimizer\.(clip_value|clip_norm|clip_global_norm|"
    r"gradient_noise\.stddev|groups\.\d+\.lr_factor|(groups\.\d+\.optimizer\.)?(weight_decay|momentum))"
)
_DROPOUT = Limits(low=0, below=1, finite=True)
# More epochs are not checked one by one before the first.
_CHECKED_EPOCHS = 10_000


@dataclass(frozen=True)
class Schedule:
    """Schedule of a known target.

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
    def is_of_dropout(self) -> bool:
        """True for the rate of a dropout of Keras."""
        return self.path.startswith(GRAPH) and self.path.endswith(".rate")

    @property
    def is_of_momentum(self) -> bool:
        """True for the momentum of an optimizer."""
        return self.path.startswith(OPTIMIZER) and self.path.endswith(".momentum")

    @property
    def is_of_model(self) -> bool:
        """True if only the model knows its target."""
        return self.path.startswith((GRAPH, MODEL, LOSS_WEIGHTS))

    @property
    def is_of_epoch(self) -> bool:
        """True if it is set at the beginning of an epoch."""
        return self.is_of_data or self.is_of_dropout or self.is_of_momentum

    def described(self) -> str:
        """Return points and interpolation in words."""
        points = sorted(self.params.points.items())
        text = " ".join(f"{epochs:g}={value:g}" for epochs, value in points)
        return text if len(points) == 1 else f"{text}, {self.params.interpolation.value}"


def shown_name(path: str) -> str:
    """Return the name of a target in messages, logs and the history: as its flag, without `trainer.`."""
    return path.removeprefix("scenario.").removeprefix("gen.setup.")


def schedules_of(params: Any) -> list[Schedule]:
    """Return the schedules of a training.

    Args:
        params: the trainer params.

    Raises:
        FieldError: if two have the same target, or a value is not allowed; the path begins at `params`.
    """
    found: dict[str, Schedule] = {}
    for index, schedule in enumerate(params.schedules):
        made = Schedule(f"{SCHEDULES_FIELD}.{index}", _path_of(params, schedule.target), schedule)
        with below(made.place):
            if made.path in found:
                raise FieldError("target", schedule.target, "a target that no other schedule has")
            if made.path.startswith(_VALIDATION):
                raise FieldError("target", schedule.target, "no value of the validation data, which stay the same")
            limits = _DROPOUT if made.is_of_dropout else _limits(params, made.path)
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
        params: the trainer params.
        targets: flags without dashes or paths; one of a node also stands for all values below it.
    """
    paths = tuple(f"{_path_of(params, target)}." for target in targets)
    return [schedule.params for schedule in schedules_of(params) if not f"{schedule.path}.".startswith(paths)]


def fixed_targets(params: Any) -> list[str]:
    """Return the paths of the targets that every model has with these trainer params."""
    places = walk_places(params, Place.of_root(""))
    found = [place.path for place, _ in places if _OF_PARAMS.fullmatch(place.path)]
    return found + [INPUT_GRADIENT_PATH] * params.scenario.use_input_gradient_regularization


def check_targets(params: Any) -> None:
    """Raise unless all targets are possible, as far as that is known without the model.

    Raises:
        FieldAdvice: if one is not; its path begins at the trainer params.
    """
    fixed = fixed_targets(params)
    for schedule in schedules_of(params):
        if not schedule.is_of_data and not schedule.is_of_model and schedule.path not in fixed:
            raise refuse(schedule, [*fixed, f"{LOSS_WEIGHTS}NAME", f"{GRAPH}LAYER.rate", f"{MODEL}NAME"])


def refuse(schedule: Schedule, known: Sequence[str]) -> FieldAdvice:
    """Return the error of a target that a schedule cannot change, given the paths that can be changed."""
    names = ", ".join(sorted(map(shown_name, known)))
    of_data = "with the next epoch numbers of gen.*, setup.train.* and data.pre_proc.*"
    made = " (the layer must be made with a rate above 0)" if schedule.is_of_dropout else ""
    return _refused(schedule, f"{made}; what can: {names}; {of_data}")


def _refused(schedule: Schedule, text: str) -> FieldAdvice:
    field = f"{schedule.place}.target"
    return FieldAdvice(f"{{{field}}} {shorten(schedule.params.target)} cannot be scheduled{text}", field)


def _path_of(params: Any, target: str) -> str:
    """Return the path that a target means: a flag, a path, or one of them with a part that is no field."""
    name = target.lstrip("-").replace("/", ".")
    if name.startswith(GRAPH):
        return name
    paths: dict[str, str] = {}
    root = type(params).flag_root
    for place, _ in walk_places(params, Place.of_root(root)):
        path = place.path.removeprefix(root).removeprefix(".")
        paths.setdefault(path, path)
        for prefix in ("gen.", "scenario."):  # as messages and logs show them
            paths.setdefault(path.removeprefix(prefix), path)
        if not place.is_hidden:
            paths.setdefault(place.flag, path)
    known, rest = split_known(name, paths)
    return f"{paths.get(known, '')}{rest}".lstrip(".")


def split_known(name: str, known: Container[str]) -> tuple[str, str]:
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


def type_of_data(params: Any, schedule: Schedule) -> type[int] | type[float]:
    """Return the type of the numbers of a target of the data.

    Raises:
        FieldAdvice: if it is no number in the params; its path begins there.
    """
    parent, _, name = schedule.path.rpartition(".")
    try:
        value, node = get_path(params, schedule.path), get_path(params, parent)
    except UsageError as error:
        raise _refused(schedule, f": {error}") from error
    cls: Any = type(node)
    declared: Any = field_types(cls)[name] if is_node(node) else type(value)
    types = (declared, *get_args(declared))
    if float in types:
        return float
    if int in types:
        return int
    raise _refused(schedule, f": it is no number, but {shorten(value)}")


class EpochValues:
    """Values of schedules at the beginning of each epoch.

    Args:
        params: the trainer params.

    Raises:
        FieldAdvice: if a target of the data is no number in the params; its path begins there.
    """

    def __init__(self, params: Any) -> None:
        self.params = params
        self.schedules = [schedule for schedule in schedules_of(params) if schedule.is_of_epoch]
        self._of_data = [schedule for schedule in self.schedules if schedule.is_of_data]
        self._whole = [schedule.path for schedule in self._of_data if type_of_data(params, schedule) is int]

    def of_data(self, epoch: int) -> dict[str, float]:
        """Return the values of the data in an epoch (from 1) by path."""
        values = self.values(epoch)
        return {schedule.path: values[schedule.path] for schedule in self._of_data}

    def values(self, epoch: int) -> dict[str, float]:
        """Return all values of an epoch (from 1) by path, whole numbers of the data rounded."""
        values = {schedule.path: schedule.params.value(epoch - 1) for schedule in self.schedules}
        return {**values, **{path: int(values[path] + 0.5) for path in self._whole}}

    def logged(self, epoch: int) -> dict[str, float]:
        """Return the values of an epoch by the name of the target."""
        values = self.values(epoch)
        return {schedule.name: float(values[schedule.path]) for schedule in self.schedules}

    def params_of(self, epoch: int) -> Any:
        """Return a copy of the trainer params with the values of the data in an epoch; the rest is shared.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        params = self.params
        for path, value in self.of_data(epoch).items():
            params = with_value(params, path, value)
        return params

    def check_each(self, check: Callable[[Any], None]) -> None:
        """Call a function with the trainer params of every epoch, once for equal ones.

        Raises:
            FieldError: if a value is not allowed; its path begins at the trainer params.
        """
        epochs = self.params.epochs if self._of_data else 0
        distinct = {tuple(self.of_data(e).values()): e for e in [*range(1, min(epochs, _CHECKED_EPOCHS)), epochs]}
        for epoch in sorted(distinct.values()):
            check(self.params_of(epoch))


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
