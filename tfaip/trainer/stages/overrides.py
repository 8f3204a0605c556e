"""The params of a stage: a copy of the tree of the run with overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tfaip.errors import UsageError
from tfaip.params.copying import copy_tree
from tfaip.params.flagnames import Place, flag_of, walk_places
from tfaip.params.flags import set_flags
from tfaip.params.root import RootParams
from tfaip.params.sharing import fill_shared
from tfaip.params.tree import Change, diff
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text

P = TypeVar("P", bound=RootParams)

# What a run has once; paths from the trainer params.
_OF_THE_RUN = (
    "epochs",
    "output_dir",
    "overwrite",
    "write_checkpoints",
    "checkpoint_sub_dir",
    "keep_checkpoints",
    "keep_stage_states",
    "export_best_of",
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


def overridden(params: P, overrides: Mapping[str, str], stage: str) -> P:
    """Return a copy of the params with overrides.

    Args:
        params: the root of the tree; it stays as it is.
        overrides: flag without dashes, or dotted path in the tree -> text as after the flag.
        stage: name of the stage, for messages.

    Raises:
        UsageError: an unknown path, a value that does not fit, or a param that a stage cannot have; one line with
            the stage and the path.
    """
    copied = copy_for_stage(params)
    try:
        set_flags(copied, _flags(copied, overrides))
    except UsageError as error:
        raise UsageError(f"stage {shorten_text(stage)}: {error}") from error
    except ValueError as error:
        raise UsageError(f"stage {shorten_text(stage)}: {shorten_text(str(error), ERROR_LIMIT)}") from error
    check_own(params, copied, stage)
    return copied


def copy_for_stage(params: P) -> P:
    """Return a copy of a tree whose shared params are those of the copy."""
    copied = copy_tree(params)
    scenario = getattr(copied, "scenario", None)
    if scenario is not None:
        fill_shared(copied, scenario, strict=False)
    return copied


def check_own(params: RootParams, changed: RootParams, stage: str) -> None:
    """Raise unless the params of a stage differ from those of the run only in what a stage may have.

    Args:
        params: of the run.
        changed: of the stage.
        stage: its name, for the message.

    Raises:
        UsageError: if they do not.
    """
    for change in diff(params, changed):
        if _begins(change.path, _OF_THE_RUN) and not _begins(change.path, _OF_A_STAGE):
            raise UsageError(
                f"stage {shorten_text(stage)}: {flag_of(params, type(params).flag_root, change.path)} is one of the "
                f"whole run, a stage cannot set it to {shorten(change.new)}"
            )


def differences(params: RootParams, changed: RootParams) -> list[Change]:
    """Return what differs between the params of the run and those of a stage, with flags instead of paths."""
    root = type(params).flag_root
    return [
        Change(flag_of(changed, root, change.path).lstrip("-"), change.old, change.new)
        for change in diff(params, changed)
        if not _begins(change.path, ("stages", "pretraining"))
    ]


def _begins(path: str, beginnings: tuple[str, ...]) -> bool:
    return any(f"{path}.".startswith(f"{beginning}.") for beginning in beginnings)


def _flags(params: RootParams, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return the overrides by flags.

    Raises:
        UsageError: if a param is given twice.
    """
    root = type(params).flag_root
    places = [place for place, _ in walk_places(params, Place.of_root(root)) if not place.is_hidden]
    flags = {place.flag for place in places}
    by_path = {place.path.removeprefix(f"{root}."): place.flag for place in places}
    found: dict[str, str] = {}
    for name, text in overrides.items():
        flag = _flag_of_name(name.lstrip("-"), flags, by_path)
        if flag in found:
            raise UsageError(f"--{shorten_text(flag)} is given twice: give it once")
        found[flag] = text
    return found


def _flag_of_name(name: str, flags: set[str], by_path: Mapping[str, str]) -> str:
    """Return the flag that a name means: a flag, a path in the tree, or the beginning of one."""
    known, rest = name, ""
    while known:
        if known in flags:
            return name
        if known in by_path:
            return by_path[known] + rest
        known, dot, last = known.rpartition(".")
        rest = f"{dot}{last}{rest}"
    return name
