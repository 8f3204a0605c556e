"""The params of a stage: a copy of the tree of the run with overrides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params.codec import Text
from tfaip.params.names.suggestions import did_you_mean
from tfaip.params.root import RootParams
from tfaip.params.settings import apply, check_flags, get_flag
from tfaip.params.sharing import fill_shared
from tfaip.params.sources import Setting
from tfaip.params.tree import Change, Place, children, copy_tree, diff, flag_of, walk_places
from tfaip.params.types import value_text
from tfaip.trainer.schedules.targets import SCHEDULES, schedules_without
from tfaip.trainer.stages.overridenames import ParamNames, merge_overrides
from tfaip.trainer.stages.placeholders import fill, fill_directories, map_texts, refers_to_result
from tfaip.util.text import shorten, shorten_text

P = TypeVar("P", bound=RootParams)

# What a run has once; paths from the trainer params.
_OF_THE_RUN = (
    "epochs",
    "callbacks",
    "output_dir",
    "overwrite",
    "write_checkpoints",
    "checkpoint_sub_dir",
    "keep_checkpoints",
    "history_file",
    "random_seed",
    "profile",
    "profile_steps",
    "progress_bar_mode",
    "device",
    "warmstart",
    "early_stopping.best_model_name",
    "stages",
    "pretraining",
    "transfer",
    "keras_backend",
    "import_root",
)
# The graph may be built again with another one.
_OF_A_STAGE = ("device.precision",)


def overridden(params: P, overrides: Mapping[str, str], directories: Mapping[str, Path] | None, stage: str) -> P:
    """Return a copy of the params with overrides.

    Args:
        params: the root of the tree; it stays as it is.
        overrides: flag without dashes, or dotted path in the tree -> text as after the flag.
        directories: full name of each finished stage -> its directory; None: placeholders of directories stay.
        stage: name of the stage, for messages.

    Raises:
        UsageError: an unknown path, a value that does not fit, or a param that a stage cannot have; one line with
            the stage and the path.
        KeyError: if an override refers to a stage without a directory.
    """
    with _naming(stage):
        values = _values(params, overrides, directories)
        changed, _ = apply(params, [Setting(flag, text) for flag, text in values.items()])
        if getattr(changed, SCHEDULES, None):
            drop_schedules(changed, overrides)
    return changed


def drop_schedules(params: Any, changed: Collection[str]) -> None:
    """Remove the schedules of the run whose values a stage gives itself.

    Args:
        params: of the stage.
        changed: flags without dashes, or paths, of all that the stage gives.

    Raises:
        UsageError: if the stage gives a schedule and a value for the same target.
    """
    root = f"{type(params).flag_root}."
    given = [name for name in changed if name.removeprefix(root).partition(".")[0] != SCHEDULES]
    remaining = schedules_without(params, given)
    if len(given) == len(changed):
        params.schedules = remaining
    elif len(remaining) < len(params.schedules):
        both = next(schedule for schedule in params.schedules if schedule not in remaining)
        raise UsageError(f"{shorten_text(both.target)} has a value and a schedule: leave out one of them")


def check_overrides(params: RootParams, overrides: Mapping[str, str], stage: str) -> None:
    """Raise unless overrides have known paths, and values of the right types; their limits are not checked.

    Args:
        params: the root of the tree.
        overrides: as of `overridden`; what they refer to need not exist.
        stage: name of the stage, for messages.

    Raises:
        UsageError: as `overridden`.
    """
    with _naming(stage):
        check_flags(params, _values(params, overrides, None))


def texts_with_results(params: RootParams, stages: Iterable[str]) -> dict[str, str]:
    """Return the params that refer to results of stages, as overrides with the full names of the stages.

    Args:
        params: the root of the tree.
        stages: full names of all stages, in order; a name means the latest stage that has it.

    Raises:
        UsageError: if a param refers to a stage that does not exist.
    """
    latest = {name.rpartition(".")[2]: name for name in stages}

    def name_of(key: str) -> str:
        if key in latest:
            return latest[key]
        raise ValueError(f"no {{{key}.dir}}, since no stage has this name{did_you_mean(key, latest)}")

    texts: dict[str, str] = {}
    for place, value in walk_places(params, Place.of_root(type(params).flag_root)):
        if place.is_hidden or children(value) is not None or not refers_to_result(value):
            continue
        try:
            texts[place.flag] = value_text(map_texts(value, lambda text: fill(text, None, name_of)))
        except ValueError as error:
            raise UsageError(f"{place.label} is {shorten(value)}: {error}") from error
    return texts


def require_overridden(params: RootParams, texts: Mapping[str, str], overrides: Mapping[str, str], stage: str) -> None:
    """Raise unless a stage overrides the params that refer to results.

    Args:
        params: the root of the tree.
        texts: as `texts_with_results` returns them.
        overrides: of the stage.
        stage: its name, for the message.

    Raises:
        UsageError: if it does not override one of them.
    """
    kept = [flag for flag in merge_overrides(params, texts, overrides) if flag in texts and flag not in overrides]
    if kept:
        raise UsageError(
            f"stage {shorten_text(stage)}: --{kept[0]} is {shorten(get_flag(params, kept[0]))}, which is known in main "
            "only: override it in this stage"
        )


@contextmanager
def _naming(stage: str) -> Iterator[None]:
    """Context that names the stage in an error about its overrides."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"stage {shorten_text(stage)}, overrides: {error}") from error


def copy_for_stage(params: P) -> P:
    """Return a copy of a tree whose shared params are those of the copy."""
    copied = copy_tree(params)
    scenario = getattr(copied, "scenario", None)
    if scenario is not None:
        fill_shared(copied, scenario, strict=False)
    return copied


def check_own(params: RootParams, changed: RootParams) -> None:
    """Raise unless the params of a stage differ from those of the run only in what a stage may have.

    Args:
        params: of the run.
        changed: of the stage.

    Raises:
        UsageError: if they do not.
    """
    for change in diff(params, changed):
        if begins(change.path, _OF_THE_RUN) and not begins(change.path, _OF_A_STAGE):
            flag = flag_of(params, type(params).flag_root, change.path)
            raise UsageError(f"{flag} is one of the whole run, a stage cannot set it to {shorten(change.new)}")


def differences(params: RootParams, changed: RootParams) -> list[Change]:
    """Return what differs between the params of the run and those of a stage, but for the stages themselves."""
    return [change for change in diff(params, changed) if not begins(change.path, ("stages", "pretraining"))]


def _require_of_a_stage(params: RootParams, flags: Iterable[str]) -> None:
    """Raise if an override sets what a run has once.

    Raises:
        UsageError: if it does.
    """
    root = type(params).flag_root
    of_the_run = tuple(flag_of(params, root, path).lstrip("-") for path in _OF_THE_RUN)
    of_a_stage = tuple(flag_of(params, root, path).lstrip("-") for path in _OF_A_STAGE)
    for flag in flags:
        if begins(flag, of_the_run) and not begins(flag, of_a_stage):
            raise UsageError(f"--{shorten_text(flag)} is one of the whole run: set it outside of the stages")


def begins(path: str, beginnings: Iterable[str]) -> bool:
    """Return True if a dotted path is one of some others, or below one of them."""
    return any(f"{path}.".startswith(f"{beginning}.") for beginning in beginnings)


def _values(
    params: RootParams, overrides: Mapping[str, str], directories: Mapping[str, Path] | None
) -> dict[str, Text]:
    """Return the overrides by flags, with the directories that they refer to."""
    # After the texts were split: a directory may hold blanks.
    fill = partial(fill_directories, directories=directories)
    return {flag: Text(text).replaced(fill) for flag, text in _flags(params, overrides).items()}


def _flags(params: RootParams, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides by flags.

    Raises:
        UsageError: if a param is given twice, or is one that the run has once.
    """
    names = ParamNames(params)
    found: dict[str, str] = {}
    for name, text in overrides.items():
        flag = names.find(name)
        if flag in found:
            raise UsageError(f"--{shorten_text(flag)} is given twice: give it once")
        found[flag] = text
    _require_of_a_stage(params, found)
    return found
