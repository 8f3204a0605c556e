"""The plan of a run: all stages in order, each with its epochs and its params."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.limits import below
from tfaip.params.settings import flags_of
from tfaip.params.tree import Place, children, walk_places
from tfaip.params.types import load_function
from tfaip.trainer.stages.overridenames import merge_overrides, whole_paths
from tfaip.trainer.stages.overrides import (
    check_overrides,
    copy_for_stage,
    overridden,
    require_overridden,
    texts_with_results,
)
from tfaip.trainer.stages.params import (
    CallStage,
    OverridingStage,
    PretrainingParams,
    StageParams,
    TrainStage,
)
from tfaip.trainer.stages.placeholders import fill_directories, map_texts, refers_to_result
from tfaip.trainer.stages.planned import MAIN, PlannedStage, StageKind, path_of_params
from tfaip.trainer.stages.pretraining import PretrainingStage, expand_pretraining, has_pretraining
from tfaip.trainer.stages.unrolling import check_remaining_epochs, unroll


def plan_stages(params: Any, scenario: Any) -> list[PlannedStage]:
    """Return the stages of a run in order; the last one is `main`, whose params are `params` itself.

    Args:
        params: the trainer params; they stay as they are.
        scenario: the scenario or its class, whose hooks `pretraining` and `params_for_epoch` are asked.

    Raises:
        UsageError: if a stage cannot work; one line that names it.
    """
    with flags_of(params, params.flag_root):
        unrolled = unroll(params.stages)
        planner = _Planner(params)
        if has_pretraining(params.pretraining, scenario):
            for pretraining in expand_pretraining(planner.plain, params.pretraining, scenario):
                planner.add_pretraining(pretraining)
        for name, settings in unrolled.items():
            planner.add(name, settings)
        return planner.finish()


def resolve_stage(stage: PlannedStage, directories: Mapping[str, Path], history: Any = None) -> PlannedStage:
    """Return a stage that is reached, with its params.

    Args:
        stage: of a plan. One that refers to no result is returned as it is.
        directories: full name of each finished stage -> its directory.
        history: rates and values of the epochs before, for hooks that ask for them.

    Raises:
        UsageError: if the params cannot work, or a directory is missing.
    """
    if stage.pending is None:
        return stage
    try:
        params = stage.pending(directories, history)
        overrides = {flag: fill_directories(text, directories) for flag, text in stage.overrides.items()}
        settings = _with_directories(stage.settings, directories)
    except KeyError as error:
        raise UsageError(f"stage {stage.name}: there is no directory of stage {error}") from error
    return dataclasses.replace(stage, params=params, overrides=overrides, settings=settings, pending=None)


def model_params(stage: PlannedStage) -> Any | None:
    """Return the params of a stage that is not reached yet, if its model does not depend on a result.

    Args:
        stage: of a plan.

    Returns:
        The params, whose data may refer to a result. None: the model is known when the stage is reached.
    """
    if stage.pending is None:
        return stage.params
    if stage.asks_history:
        return None
    try:
        params = stage.pending(None, None)
    except UsageError:
        return None  # a value that has limits, which the text of a placeholder does not keep
    of_data = f"{params.flag_root}.gen."
    for place, value in walk_places(params, Place.of_root(params.flag_root)):
        if children(value) is None and refers_to_result(value) and not place.path.startswith(of_data):
            return None
    return params


# Computes the params of a stage that is reached: of the directories of the finished stages, and the history.
_Pending = Callable[..., Any]
# The params of a stage; or None, and what computes them.
_Resolved = tuple[Any, _Pending | None]


@dataclass
class _Base:
    """Params of the latest training: those of the run or of a hook, and the overrides of its stage."""

    params: Any
    pending: _Pending | None = None
    overrides: dict[str, str] = field(default_factory=dict)

    def resolve(self, overrides: Mapping[str, str], name: str, is_later: bool = False) -> _Resolved:
        """Return the params with further overrides.

        Args:
            overrides: of the stage.
            name: of the stage, for messages.
            is_later: the stage waits for a result, even if its params do not.
        """
        merged = merge_overrides(self.params, self.overrides, overrides)

        def pending(directories: Mapping[str, Path] | None, history: Any) -> Any:
            params = self.params if self.pending is None else self.pending(directories, history)
            return overridden(params, merged, directories, name)

        if is_later or self.pending is not None or refers_to_result(merged):
            check_overrides(self.params, merged, name)
            return None, pending
        return overridden(self.params, merged, {}, name), None


class _Planner:
    """Builder of a plan, stage by stage.

    Args:
        params: the trainer params.
    """

    def __init__(self, params: Any) -> None:
        self._params = params
        self._latest: _Base | None = None
        self._stages: list[PlannedStage] = []
        self._next_epoch = 1

    @cached_property
    def plain(self) -> Any:
        """A copy of the params of the run without stages; a run that has none needs no copy."""
        plain = copy_for_stage(self._params)
        plain.stages, plain.pretraining = {}, PretrainingParams()
        return plain

    @property
    def _base(self) -> _Base:
        """Params of the latest training, or of the first one."""
        return _Base(self.plain) if self._latest is None else self._latest

    def add_pretraining(self, stage: PretrainingStage) -> None:
        """Add a stage of the pretraining."""
        self._latest = _Base(self.plain if stage.params is None else stage.params, stage.pending, dict(stage.overrides))
        resolved = stage.params, stage.pending
        if stage.params is None and stage.pending is None:
            resolved = self._base.resolve({}, stage.name)
        self._append(
            stage.name,
            StageKind.TRAIN,
            stage.epochs,
            resolved,
            overrides=stage.overrides,
            rate_control=self._params.pretraining.rate_control,
            transfer=self._params.transfer,
            asks_history=stage.pending is not None,
        )

    def add(self, name: str, settings: StageParams) -> None:
        """Add a stage of the list."""
        if isinstance(settings, TrainStage):
            self._add_training(name, settings)
        elif isinstance(settings, OverridingStage):
            overrides = whole_paths(self.plain, settings.overrides)
            resolved = self._base.resolve(overrides, name)
            self._append(name, StageKind.PREDICT, 0, resolved, overrides=overrides, settings=settings)
        elif isinstance(settings, CallStage):
            with below(path_of_params(name)):
                load_function(settings.function, "function")
            resolved = self._base.resolve({}, name, is_later=refers_to_result(settings.arguments))
            self._append(name, StageKind.CALL, 0, resolved, settings=settings)

    def _add_training(self, name: str, settings: TrainStage) -> None:
        overrides = whole_paths(self.plain, settings.overrides)
        if settings.no_train_scope is not None:
            # An empty one lifts that of the run. Two are an error: they have different spellings.
            key = "no_train_scope" if "trainer.no_train_scope" in overrides else "trainer.no_train_scope"
            overrides[key] = settings.no_train_scope or "None"
        resolved = _Base(self.plain).resolve(overrides, name)
        self._latest = _Base(self.plain, overrides=overrides)
        self._append(
            name,
            StageKind.TRAIN,
            settings.epochs or 0,
            resolved,
            overrides=overrides,
            rate_control=settings.rate_control,
            transfer=settings.transfer,
            settings=settings,
        )

    def finish(self) -> list[PlannedStage]:
        """Return the plan, with the plain params as the last stage."""
        used = self._next_epoch - 1
        check_remaining_epochs(used, self._params.epochs)
        self._append(
            MAIN,
            StageKind.TRAIN,
            self._params.epochs - used,
            (self._params, self._main_when_reached()),
            transfer=self._params.transfer,
        )
        return self._stages

    def _main_when_reached(self) -> _Pending | None:
        """Return the function that computes the params of `main`; None: they refer to no result."""
        texts = texts_with_results(self.plain, [stage.name for stage in self._stages]) if self._stages else {}
        if not texts:
            return None
        check_overrides(self.plain, texts, MAIN)
        for stage in self._stages:
            if isinstance(stage.settings, TrainStage):
                require_overridden(self.plain, texts, stage.overrides, stage.name)
        return lambda directories, history: overridden(self.plain, texts, directories, MAIN)

    def _append(self, name: str, kind: StageKind, epochs: int, resolved: _Resolved, **values: Any) -> None:
        params, pending = resolved
        first = self._next_epoch
        self._stages.append(PlannedStage(name, kind, first, first + epochs - 1, params, pending=pending, **values))
        self._next_epoch += epochs


def _with_directories(settings: Any, directories: Mapping[str, Path]) -> Any:
    """Return a copy of the params of a stage with the directories that its texts refer to."""
    if not isinstance(settings, CallStage | OverridingStage):
        return settings
    name = "arguments" if isinstance(settings, CallStage) else "overrides"
    filled = map_texts(getattr(settings, name), lambda text: fill_directories(text, directories))
    return dataclasses.replace(settings, **{name: filled})
