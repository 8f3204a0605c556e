"""Stages of a run in order: of a list, of the hooks of a scenario, or of its program `stages`. Needs no backend."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import UsageError
from tfaip.params.fields import FieldError
from tfaip.params.names import did_you_mean
from tfaip.params.settings import flags_of, prepare
from tfaip.params.tree import Place, children, copy_tree, diff, walk_places
from tfaip.params.types import load_function, value_text
from tfaip.trainer.stages.overrides import (
    check_overrides,
    check_own,
    copy_for_stage,
    differences,
    drop_schedules,
    merge_overrides,
    overridden,
    referred_stages,
    refers_to_result,
    whole_paths,
)
from tfaip.trainer.stages.params import (
    EPOCH,
    MAIN,
    PRETRAINING,
    CallStage,
    OverridingStage,
    PredictStage,
    PretrainingParams,
    StageParams,
    TrainStage,
    check_stage,
)
from tfaip.trainer.transfer.params import TransferParams
from tfaip.util.construction import construct
from tfaip.util.overriding import overrides
from tfaip.util.text import shorten
from tfaip.util.typing import Logs

_LEFT_OUT = "--pretraining.max_epochs 0"


class StageKind(StrEnum):
    """Work of a stage."""

    TRAIN = "train"
    PREDICT = "predict"
    CALL = "call"


@dataclass(frozen=True)
class PlannedStage:
    """Stage of a run with its place in it.

    Args:
        name: its name; the plain params are `main`.
        kind: its work.
        number: of the stage, from 0.
        first_epoch: its first epoch in the numbers of the whole run; without training the epoch that follows it.
        last_epoch: its last planned epoch; without training `first_epoch - 1`.
        params: the whole tree of its training; None: it refers to the file of a stage, see `resolve`.
        overrides: dotted path -> value as text.
        rate_control: False: the rate is held, and the scores of the stage do not count for the control.
        transfer: the weights that it takes over from the stage before.
        settings: the params of the stage itself; None: it is `main`.
        epoch_offset: number of the epoch before the first one of the rate control: of a later call of `Trainer.fit`.
        pending: computes the params of the files of the finished stages.
    """

    name: str
    kind: StageKind
    number: int
    first_epoch: int
    last_epoch: int
    params: Any
    overrides: Mapping[str, str] = field(default_factory=dict)
    rate_control: bool = True
    transfer: TransferParams = field(default_factory=TransferParams)
    settings: StageParams | None = None
    epoch_offset: int = 0
    pending: Callable[[Mapping[str, Path]], Any] | None = field(default=None, compare=False, repr=False)

    def resolve(self, files: Mapping[str, Path]) -> PlannedStage:
        """Return the stage with its params.

        Args:
            files: of the finished stages, by name.
        """
        if self.pending is None:
            return self
        return dataclasses.replace(self, params=self.pending(files), pending=None)


@dataclass(frozen=True)
class StageResult:
    """Result of a finished stage, which a program gets for the stage that it has yielded.

    Args:
        name: of the stage.
        first_epoch: its first epoch in the numbers of the run; without training the next one.
        last_epoch: its last trained epoch, which is not the planned one if it stopped early.
        values: all values of its last epoch.
        best: `epoch` and `value` of its best epoch; None: there is none.
        directory: of the stage; None: the run writes nothing.
        file: that a `PredictStage` has written.
        value: that the function of a `CallStage` has returned.
    """

    name: str
    first_epoch: int
    last_epoch: int
    values: Logs = field(default_factory=dict)
    best: dict[str, Any] | None = None
    directory: str | None = None
    file: str | None = None
    value: Any = None


StageProgram = Generator[PlannedStage, Any, None]
"""Yields the stages of a run, and gets the result of each."""


def planned_stages(params: Any, scenario: Any, history: Any) -> StageProgram:
    """Yield the stages of a run in order; the last one is `main`, whose params are `params` itself.

    Args:
        params: the trainer params; they stay as they are.
        scenario: the scenario or its class.
        history: rates and values of the finished stages, for programs.

    Raises:
        UsageError: if a stage cannot work; one line that names it.
    """
    with flags_of(params, params.flag_root):
        planner = _Planner(params)
        if params.stages and _has_program(params, scenario):
            raise UsageError(f"{_name_of(scenario)} has a program of stages: leave out --stages, or set {_LEFT_OUT}")
        found, result = _all_stages(params, planner, scenario, history), None
        while True:
            try:
                stage = found.send(result)
            except StopIteration:
                break
            result = yield planner.plan(stage)
        used = planner.next_epoch - 1
        if used < params.epochs:
            yield planner.main()
        elif not may_use_all_epochs(scenario):
            raise FieldError(
                "epochs", params.epochs, f"more than the {used} epochs of the stages, as it counts all of them"
            )


def may_use_all_epochs(scenario: Any) -> bool:
    """Return True if the stages are known when they are reached, so that `main` may get no epochs."""
    return _has(scenario, "stages") or _asks_for_history(scenario)


def _all_stages(params: Any, planner: _Planner, scenario: Any, history: Any) -> Generator[Any, Any, None]:
    """Yield the stages of the hooks, then those of the list or of the program."""
    yield from _hook_stages(planner, params.pretraining, scenario, history)
    for name, stage in params.stages.items():
        yield dataclasses.replace(stage, name=name)
    if _has_program(params, scenario):
        program = scenario.stages(copy_for_stage(planner.plain), history)
        if not isinstance(program, Generator):
            raise UsageError(f"stages of {_name_of(scenario)} returned {shorten(program)}, expected a generator")
        yield from program


class _Planner:
    """Planner of one stage after the other."""

    def __init__(self, params: Any) -> None:
        self._params = params
        self.next_epoch = 1
        self._names: dict[str, type] = {}
        # Of the latest training: params of the run or of a hook, and the overrides of its stage.
        self._latest: tuple[Any, Mapping[str, str]] | None = None

    @cached_property
    def plain(self) -> Any:
        """A copy of the params of the run without stages; a run that has none needs no copy."""
        plain = copy_for_stage(self._params)
        plain.stages, plain.pretraining = {}, PretrainingParams()
        return plain

    def plan(self, stage: Any) -> PlannedStage:
        """Return the plan of the next stage."""
        if isinstance(stage, _OfHook):
            self._latest = stage.params, {}
            return self._append(stage.settings, stage.params, {}, stage.settings.overrides, self._params.transfer)
        if not isinstance(stage, StageParams):
            raise UsageError(f"the program yielded {shorten(stage)}, expected TrainStage, PredictStage or CallStage")
        settings: Any = copy_tree(stage)  # the program may change its own
        place = f"stages.{settings.name}"
        check_stage(settings, settings.name, f"{place}.name", f"{place}.", self._names)
        prepare(settings, place)
        base, given = self._latest or (self.plain, {})
        own = whole_paths(self.plain, settings.overrides) if isinstance(settings, OverridingStage) else {}
        if isinstance(settings, TrainStage):
            if settings.no_train_scope is not None:
                # An empty one lifts that of the run. Two are an error: they have different spellings.
                key = "no_train_scope" if "trainer.no_train_scope" in own else "trainer.no_train_scope"
                own[key] = settings.no_train_scope or "None"
            base, given = self._latest = self.plain, own
        elif isinstance(settings, PredictStage):
            given = merge_overrides(base, given, own)
        elif isinstance(settings, CallStage):
            load_function(settings.function, f"{place}.function")
        return self._append(settings, base, given, own, getattr(settings, "transfer", TransferParams()))

    def main(self) -> PlannedStage:
        """Return the stage of the plain params."""
        return self._append(None, self.plain if self._names else None, {}, {}, self._params.transfer)

    def _append(
        self, settings: StageParams | None, base: Any, given: Mapping[str, str], own: Any, transfer: TransferParams
    ) -> PlannedStage:
        """Return the plan of a stage: params `base` with the overrides `given`, of which `own` are those of itself."""
        name = MAIN if settings is None else settings.name
        epochs = self._params.epochs - self.next_epoch + 1 if settings is None else getattr(settings, "epochs", 0)
        number, first, last = len(self._names), self.next_epoch, self.next_epoch + epochs - 1
        if epochs and last > self._params.epochs:
            raise FieldError("epochs", self._params.epochs, f"at least {last}, the last epoch of stage {name}")
        params, pending = self._params, None
        if settings is not None or (base is not None and _texts_with_results(base)):
            params, pending = self._params_of(name, base, given, may_wait=not isinstance(settings, CallStage))
        self._names[name] = type(settings)
        self.next_epoch = last + 1
        kind = StageKind.TRAIN if epochs else StageKind.CALL if isinstance(settings, CallStage) else StageKind.PREDICT
        control = getattr(settings, "rate_control", True)
        return PlannedStage(name, kind, number, first, last, params, own, control, transfer, settings, pending=pending)

    def _params_of(self, name: str, base: Any, given: Mapping[str, str], may_wait: bool) -> tuple[Any, Any]:
        """Return params with overrides; or None, and what computes them when the stage is reached."""
        texts = merge_overrides(base, _texts_with_results(base), given)
        referring = {flag: text for flag, text in texts.items() if refers_to_result(text)}
        if not referring or not may_wait:
            return overridden(base, given, None, name), None
        for flag, text in referring.items():
            for key in referred_stages(text):
                self._check_reference(key, f"stage {name}: --{flag} is {shorten(text)}, but")
        check_overrides(base, given, name)
        return None, lambda files: overridden(base, texts, files, name)

    def _check_reference(self, key: str, place: str) -> None:
        writing = [name for name, kind in self._names.items() if issubclass(kind, PredictStage)]
        if key not in [*self._names, *self._params.stages]:
            raise UsageError(f"{place} no stage has this name{did_you_mean(key, writing)}")
        if key not in self._names:
            raise UsageError(f"{place} {key} comes later: override it in this stage")
        if key not in writing:
            raise UsageError(f"{place} {key} writes no file, as only a PredictStage does")


def _texts_with_results(params: Any) -> dict[str, str]:
    """Return the params that refer to files of stages, as overrides."""
    places = walk_places(params, Place.of_root(type(params).flag_root))
    values = {place.flag: value for place, value in places if not place.is_hidden and children(value) is None}
    return {flag: value_text(value) for flag, value in values.items() if refers_to_result(value)}


class _OfHook(NamedTuple):
    """Stage whose params a hook has returned; its overrides are what differs in them."""

    settings: TrainStage
    params: Any


def _hook_stages(planner: _Planner, pretraining: PretrainingParams, scenario: Any, history: Any) -> Iterator[_OfHook]:
    """Yield the stages of the hooks `pretraining` and `params_for_epoch`."""
    names = [name for name in ("pretraining", "params_for_epoch") if _has(scenario, name)]
    if not names or pretraining.max_epochs == 0:
        return
    plain = planner.plain
    are_methods = any(inspect.isfunction(inspect.getattr_static(scenario, name)) for name in names)
    if isinstance(scenario, type) and are_methods:
        scenario = construct(scenario, copy_for_stage(plain).scenario)
    for stage in _of_indices(plain, pretraining, scenario):
        yield stage
    for stage in _of_epochs(plain, pretraining, scenario, history):
        if planner.next_epoch > 1 and stage.settings.name == f"{EPOCH}.1":
            both = "has both hooks, pretraining and params_for_epoch: return None in one of them"
            raise UsageError(f"{_name_of(scenario)} {both}")
        yield stage


def _of_indices(plain: Any, pretraining: PretrainingParams, scenario: Any) -> Iterator[_OfHook]:
    """Yield a stage for each index that the hook `pretraining` knows."""
    index = used = 0
    limit = _limit(plain, pretraining)
    while (result := scenario.pretraining(index, copy_for_stage(plain))) is not None:
        params, epochs = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        call, is_number = f"pretraining({index}, params)", type(epochs) is int and epochs >= 1
        if type(params) is not type(plain) or not (epochs is None or is_number):
            raise _unexpected(call, scenario, result, plain, ", a tuple of it and a number of epochs of at least 1,")
        stage = _of_hook(f"{PRETRAINING}.{index}", call, params, plain, pretraining, scenario)
        stage.settings.epochs = epochs or pretraining.epochs_of(index)
        index, used = index + 1, used + stage.settings.epochs
        if used > limit:
            raise _endless(call, scenario, limit)
        yield stage


def _of_epochs(plain: Any, pretraining: PretrainingParams, scenario: Any, history: Any) -> Iterator[_OfHook]:
    """Yield a stage for each epoch of the hook `params_for_epoch`; epochs with equal params are one.

    A hook that asks for the history is asked when the epoch is reached: each epoch is a stage.
    """
    later = _asks_for_history(scenario)
    asked = {"history": history} if later else {}
    limit = _limit(plain, pretraining)
    stage: _OfHook | None = None
    for epoch in range(1, limit + (1 if later else 2)):
        call = f"params_for_epoch({epoch}, params)"
        is_left = stage is not None and limit == plain.epochs and not differences(plain, stage.params)
        if epoch > plain.epochs and is_left:
            return  # the last epochs are those of the plain params
        params = scenario.params_for_epoch(epoch, copy_for_stage(plain), **asked)
        if params is not None and type(params) is not type(plain):
            raise _unexpected(call, scenario, params, plain, "")
        if params is not None and epoch > limit:
            raise _endless(call, scenario, limit)
        if params is not None and stage is not None and not differences(stage.params, params):
            stage.settings.epochs = (stage.settings.epochs or 0) + 1
            continue
        if stage is not None:
            yield stage
        if params is None:
            return
        stage = _of_hook(f"{EPOCH}.{epoch}", call, params, plain, pretraining, scenario)
        if later:
            yield stage
            stage = None


def _limit(plain: Any, pretraining: PretrainingParams) -> int:
    return plain.epochs if pretraining.max_epochs is None else pretraining.max_epochs


def _of_hook(name: str, call: str, params: Any, plain: Any, pretraining: PretrainingParams, scenario: Any) -> _OfHook:
    """Return a stage of one epoch with params of a hook after all checks; those of the hook may change later."""
    params = copy_for_stage(params)
    changes = diff(plain, params)
    paths: list[str] = []  # of dicts those of the items
    for change in changes:
        if isinstance(change.old, dict) and isinstance(change.new, dict):
            keys = dict.fromkeys([*change.old, *change.new])
            paths += [f"{change.path}.{key}" for key in keys if change.old.get(key) != change.new.get(key)]
        else:
            paths.append(change.path)
    try:
        prepare(params, plain.flag_root)
        check_own(plain, params)
        if params.schedules:
            drop_schedules(params, paths)
    except (UsageError, ValueError) as error:
        raise UsageError(f"{call} of {_name_of(scenario)}: {error}") from error
    texts = {change.path: str(change.new) for change in differences(plain, params)}
    return _OfHook(TrainStage(name, texts, 1, pretraining.rate_control), params)


def _unexpected(call: str, scenario: Any, result: Any, plain: Any, others: str) -> UsageError:
    shown = type(result).__name__ if hasattr(result, "__dataclass_fields__") else shorten(result)
    expected = f"{type(plain).__name__}{others or ','} or None at the end"
    return UsageError(f"{call} of {_name_of(scenario)} returned {shown}, expected {expected}")


def _endless(call: str, scenario: Any, limit: int) -> UsageError:
    return UsageError(
        f"{call} of {_name_of(scenario)} has not returned None after {limit} epochs: return it where the "
        "pretraining ends, or change --pretraining.max_epochs or --trainer.epochs"
    )


def _asks_for_history(scenario: Any) -> bool:
    return "history" in inspect.signature(scenario.params_for_epoch).parameters


def _has_program(params: Any, scenario: Any) -> bool:
    return params.pretraining.max_epochs != 0 and _has(scenario, "stages")


def _has(scenario: Any, hook: str) -> bool:
    """Return True if a scenario, or its class, overrides a hook."""
    return overrides(scenario if isinstance(scenario, type) else type(scenario), ScenarioComponents, hook)


def _name_of(scenario: Any) -> str:
    cls: type = scenario if isinstance(scenario, type) else type(scenario)
    return cls.__name__
