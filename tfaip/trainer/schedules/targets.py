"""Targets of schedules: what a name of the user means, and the values that a field may have; needs no backend."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from tfaip.params.generics import field_types
from tfaip.params.limits import FieldAdvice, FieldError, Limits, below, limits_of
from tfaip.params.names.suggestions import did_you_mean
from tfaip.params.tree import Place, children, get_path, is_node, walk_places
from tfaip.trainer.schedules.params import ScheduleParams
from tfaip.util.text import shorten

GRAPH = "graph."
MODEL = "scenario.model."
LOSS_WEIGHTS = "loss_weights."
SCHEDULES = "schedules"
# Parts of the tree that are read when an epoch begins.
_OF_DATA = ("gen.", "scenario.data.pre_proc.")
_VALIDATION = ("gen.val.", "gen.setup.val.")
INPUT_GRADIENT = "scenario.input_gradient_regularization_lambda"
# Where they differ from those of the field.
_RANGES = {
    INPUT_GRADIENT: Limits(0, None, None, None, True, {}, (), None),
}


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
        place = f"{SCHEDULES}.{index}"
        made = Schedule(place, _path_of(params, schedule.target), schedule)
        if made.path in found:
            raise FieldError(f"{place}.target", schedule.target, "a target that no other schedule has")
        if made.path.startswith(_VALIDATION):
            raise FieldError(f"{place}.target", schedule.target, "no value of the validation data, which stay the same")
        with below(place):
            _check_values(params, made)
        found[made.path] = made
    return list(found.values())


def live_schedules(params: Any) -> list[Schedule]:
    """Return the schedules whose values change while the model stays compiled; see `schedules_of`."""
    return [schedule for schedule in schedules_of(params) if not schedule.is_of_data]


def schedules_of_data(params: Any) -> list[Schedule]:
    """Return the schedules that the data of an epoch depend on; see `schedules_of`."""
    return [schedule for schedule in schedules_of(params) if schedule.is_of_data]


def schedules_without(params: Any, targets: Collection[str]) -> list[ScheduleParams]:
    """Return the params of the schedules that remain if values are given for some targets, e.g. by a stage.

    Args:
        params: the trainer params.
        targets: flags without dashes or paths; one of a node also stands for all values below it.
    """
    paths = tuple(f"{_path_of(params, target)}." for target in targets)
    return [schedule.params for schedule in schedules_of(params) if not f"{schedule.path}.".startswith(paths)]


def refuse(schedule: Schedule, live: Sequence[str]) -> FieldAdvice:
    """Return the error of a target that a schedule cannot change.

    Args:
        schedule: of this target.
        live: the paths that can be changed: while the model stays compiled, or of the data.
    """
    field = f"{schedule.place}.target"
    if schedule.is_of_data:
        hint = did_you_mean(schedule.name, map(shown_name, live))
        return FieldAdvice(
            f"{{{field}}} {shorten(schedule.params.target)} cannot be scheduled: the data have no such number{hint}",
            field,
        )
    names = ", ".join(sorted(map(shown_name, live)))
    return FieldAdvice(
        f"{{{field}}} {shorten(schedule.params.target)} cannot be scheduled; what can: {names}; with the next epoch "
        "numbers of gen.*, setup.train.* and data.pre_proc.*",
        field,
    )


def _path_of(params: Any, target: str) -> str:
    """Return the path that a target means: a flag, a path, or one of them with a part that is no field."""
    name = target.lstrip("-").replace("/", ".")
    if name.startswith(GRAPH):
        return name
    paths: dict[str, str] = {}
    for path, place in _places(params):
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


def _places(params: Any) -> Iterator[tuple[str, Place]]:
    """Yield the path of every node and value, from the trainer params, with its place."""
    root = type(params).flag_root
    for place, _ in walk_places(params, Place.of_root(root)):
        yield place.path.removeprefix(root).removeprefix("."), place


def _check_values(params: Any, schedule: Schedule) -> None:
    allowed = _limits(params, schedule.path)
    if allowed is None:
        return
    for epochs, value in schedule.params.points.items():
        expected = allowed.expected(value)
        if expected is not None:
            raise FieldError("points", value, expected, index=epochs)


def _limits(params: Any, path: str) -> Limits | None:
    if path in _RANGES:
        return _RANGES[path]
    value, found = params, None
    for part in path.split("."):
        if is_node(value):  # an item of a list or a dict has the limits of the field
            found = limits_of(type(value), part)
        value = (children(value) or {}).get(part)
    return found


def number_type(params: Any, path: str) -> type[int] | type[float] | None:
    """Return the type of the numbers of a field or of an item of a list; None: it holds no number.

    Raises:
        UsageError: if there is no such field.
    """
    value = get_path(params, path)
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        return None
    declared = _declared_types(params, path)
    if isinstance(value, float) or float in declared:
        return float
    return int if isinstance(value, int) or int in declared else None


def numbers_of_data(params: Any) -> list[str]:
    """Return the paths of all fields of the data that hold a number."""
    chosen = [path for path, _ in _places(params) if path.startswith(_OF_DATA) and not path.startswith(_VALIDATION)]
    return [path for path in chosen if number_type(params, path) is not None]


def _declared_types(params: Any, path: str) -> tuple[Any, ...]:
    """Return the types that a field may have; () for an item of a list."""
    parent, _, name = path.rpartition(".")
    node = get_path(params, parent)
    cls: Any = type(node)
    if not is_node(node):
        return ()
    declared = field_types(cls).get(name)
    return declared, *get_args(declared)
