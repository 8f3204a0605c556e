"""Old names of fields and classes, which stay accepted; suggestions for mistyped ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

# Of a list of known names, so that an error stays one line of 300 characters.
_LIST_LIMIT = 140

RENAMED_FIELDS: Mapping[str, Mapping[str, str]] = {
    "TrainerParams": {"ema_decay": "calc_ema"},
    "OptimizerParams": {"global_clip_norm": "clip_global_norm"},
}

# Class -> fields of older files that it does not need any more.
REMOVED_FIELDS: Mapping[str, frozenset[str]] = {"TutorialPipelineParams": frozenset({"dataset"})}

# `__cls__` of older files -> `__cls__` of today, both as "module:Class".
RENAMED_CLASSES: Mapping[str, str] = {
    "tfaip.data.databaseparams:DataGeneratorParams": "tfaip.data.pipeline.datagenerator:DataGeneratorParams",
    "tfaip.data.databaseparams:DataPipelineParams": "tfaip.data.pipeline.params:DataPipelineParams",
    "tfaip.lav.trainingdata:TrainingDataParams": "tfaip.export.trainingdata:TrainingDataParams",
    "tfaip.scenario.tutorial.full.data:TutorialDataParams": "tfaip.scenario.tutorial.full.data:TutorialData",
    "tfaip.scenario.tutorial.full.data:TutorialGeneratorParams": "tfaip.scenario.tutorial.full.data:TutorialGenerator",
    "tfaip.scenario.tutorial.full.processors:NormalizeParams": "tfaip.scenario.tutorial.full.processors:Normalize",
    "tfaip.scenario.tutorial.full.processors:RandomShiftParams": "tfaip.scenario.tutorial.full.processors:RandomShift",
    "tfaip.scenario.tutorial.min.scenario:MinDataParams": "tfaip.scenario.tutorial.min.scenario:MinData",
    "tfaip.scenario.scenariobaseparams:ScenarioBaseParams": "tfaip.components.params:ScenarioBaseParams",
    "tfaip.trainer.earlystopping.params:EarlyStoppingParams": "tfaip.trainer.earlystopping:EarlyStoppingParams",
    "tfaip.trainer.params:TrainerPipelineParams": "tfaip.components.pipelineparams:TrainerPipelineParams",
    "tfaip.trainer.params:TrainerPipelineParamsBase": "tfaip.components.pipelineparams:TrainerPipelineParamsBase",
    "tfaip.trainer.params:TrainerPipelines": "tfaip.components.pipelineparams:TrainerPipelines",
    "tfaip.trainer.params:TrainingPipelineGeneratorParams": "tfaip.components.pipelineparams:TrainerPipelineParams",
}


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Return the known names that resemble `name`, best first; case does not matter."""
    import difflib  # 4 ms, and only messages need it

    spelling: dict[str, str] = {}
    for candidate in known:
        spelling.setdefault(candidate.lower(), candidate)
    return [spelling[match] for match in difflib.get_close_matches(name.lower(), spelling, count, 0.6)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean a or b?"`, or the known names if none is near, for a message.

    For an option of RETURNN the answer is its name here.
    """
    from tfaip.params.returnn_names import RETURNN_OPTIONS

    known = list(known)
    near = nearest(name, known)
    counterpart = RETURNN_OPTIONS.get(name, "").rpartition(".")[2]
    if counterpart in known:
        near = [counterpart]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {one_of(known)}" if known else ""


def one_of(known: Iterable[str]) -> str:
    """Return `"expected one of: a, b"`, to be appended to a message."""
    names = ", ".join(sorted(known))
    if len(names) > _LIST_LIMIT:
        names = names[:_LIST_LIMIT].rpartition(", ")[0] + ", ..."
    return f"expected one of: {names}"


def renamed_fields(cls: type) -> dict[str, str]:
    """Return old name -> present name of all renamed fields of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(RENAMED_FIELDS.get(base.__name__, {}))
    return found


def current_name(cls: type, name: str, stacklevel: int = 3) -> str:
    """Return the present name of a field; warn with a `DeprecationWarning` if `name` is an old one.

    Args:
        cls: class that has the field.
        name: old or present name.
        stacklevel: which caller the warning shows, counted from here.
    """
    new = renamed_fields(cls).get(name)
    if new is None:
        return name
    warn_renamed(f"{cls.__name__}.{name}", new, stacklevel + 1)
    return new


def warn_renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Warn that a name is old."""
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel)


def current_names(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with old field names replaced by the present ones.

    Raises:
        TypeError: a field is given by its old and by its present name.
    """
    if not renamed_fields(cls).keys() & values.keys():
        return dict(values)
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        new = current_name(cls, name, stacklevel=4)
        if new in renamed or (new != name and new in values):
            raise TypeError(f"{cls.__name__} got both {name!r} (the old name) and {new!r}: give only {new!r}")
        renamed[new] = value
    return renamed
