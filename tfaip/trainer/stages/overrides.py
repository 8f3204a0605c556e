"""The params of a stage: a copy of the tree of the run with overrides."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tfaip.errors import UsageError
from tfaip.params.codec import Text
from tfaip.params.settings import RootParams, apply, check_flags
from tfaip.params.sources import Setting
from tfaip.params.tree import Change, Place, copy_tree, diff, fill_shared, flag_of, walk_places
from tfaip.params.types import path_below
from tfaip.trainer.schedules.targets import SCHEDULES, schedules_without, split_known
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


class ParamNames:
    """Names of the params of a tree: flags, and dotted paths.

    Args:
        params: the root of the tree.
    """

    def __init__(self, params: RootParams) -> None:
        root = type(params).flag_root
        self._flags: dict[str, str] = {}
        for place, _ in walk_places(params, Place.of_root(root)):
            if not place.is_hidden:
                self._flags[place.flag] = place.flag
                self._flags.setdefault(place.path.removeprefix(f"{root}."), place.flag)

    def find(self, name: str) -> str:
        """Return the flag that a name means.

        A name may also be that of a class that is chosen by another override, and the flag one that does not exist.
        """
        known, rest = split_known(name.lstrip("-"), self._flags)
        return f"{self._flags[known]}{rest}" if known else rest

    def is_group(self, name: str) -> bool:
        """Return True if a name means a group of params."""
        begin = f"{name.lstrip('-')}."
        return any(known.startswith(begin) for known in self._flags)


def whole_paths(params: RootParams, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return overrides by whole paths: the text of a group of params (`units=32` of `model`) is split, once.

    Args:
        params: the root of the tree.
        overrides: as of `overridden`.

    Raises:
        UsageError: if a param is given twice.
    """
    names = ParamNames(params)
    found: dict[str, str] = {}
    for name, text in overrides.items():
        parts = {name: text}
        words = [word.partition("=") for word in Text(text)]
        if words and all(equals for _, equals, _ in words) and names.is_group(name):
            parts = {path_below(name, key): value for key, _, value in words}
        for path, value in parts.items():
            if path in found:
                raise UsageError(f"--{shorten_text(path)} is given twice: give it once")
            found[path] = value
    return found


def merge_overrides(params: RootParams, first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Return all overrides; of a param that both have, in whatever spelling, that of `second`."""
    if not first:
        return dict(second)
    names = ParamNames(params)
    replaced = {names.find(name) for name in second}
    kept = {name: text for name, text in first.items() if names.find(name) not in replaced}
    return {**kept, **second}


# Other braces belong to the text: `a{2}` of a regular expression, `{epoch:04d}` of a name.
_REFERENCE = re.compile(r"\{([^{}]*)\.file\}")


def referred_stages(value: Any) -> Iterator[str]:
    """Yield the names of the stages that a text refers to, or the texts in a list or dict."""
    if isinstance(value, str):
        yield from _REFERENCE.findall(value)
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from referred_stages(item)


def refers_to_result(value: Any) -> bool:
    """Return True if a text, or one in a list or dict, refers to a stage."""
    return any(True for _ in referred_stages(value))


def fill_directories(text: str, directories: Mapping[str, Path] | None) -> str:
    """Return a text with the files of the stages that it refers to; None: they are not known yet.

    Raises:
        KeyError: if a stage has no file.
    """
    if directories is None:
        return text
    return _REFERENCE.sub(lambda match: str(directories[match[1]]), text)


def map_texts(value: Any, function: Callable[[str], str]) -> Any:
    """Return a value with another text for each text in it, in lists and dicts too."""
    if isinstance(value, str):
        return function(value)
    if isinstance(value, list | tuple):
        return [map_texts(item, function) for item in value]
    if isinstance(value, Mapping):
        return {key: map_texts(item, function) for key, item in value.items()}
    return value
