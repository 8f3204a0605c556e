"""Identity of a sweep: only the same one can be continued in its directory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tfaip.errors import UsageError
from tfaip.params.commandline.config_output import yaml_value
from tfaip.sweep.space import Space
from tfaip.util.text import ERROR_LIMIT, shorten_text

STUDY_FILE = "study.db"
STUDY_NAME = "sweep"
# Attribute of the study.
ABOUT = "tfaip"
# Instead of the name of a value: the one that tells the best model.
BEST = "best"
_NOT_GIVEN = "not given"


def about_sweep(
    scenario: str, flags: Sequence[str], space: Space, monitor: str | None, sampler: str, seed: int
) -> dict[str, Any]:
    """Return what must be the same when a sweep is continued, as the study stores it.

    Args:
        scenario: as it is given to `tfaip-train`.
        flags: of `tfaip-train`, the same in all trials.
        space: the flags that vary.
        monitor: mode and name of the value to compare.
        sampler: name of the sampler.
        seed: of the search.
    """
    return {
        "scenario": scenario,
        "flags": list(flags),
        "space": {flag: entry.stored() for flag, entry in space.items()},
        "monitor": monitor,
        "sampler": sampler,
        "seed": seed,
    }


def address(directory: Path) -> str:
    """Return the address of the database of the study in a directory."""
    # A path may contain what ends one in an address.
    file = re.sub("[%?#]", lambda sign: quote(sign[0]), str((directory / STUDY_FILE).absolute()))
    return f"sqlite:///{file}"


def stored_sweep(directory: Path) -> object:
    """Return what is stored about the sweep in a directory; None: there is none, or it cannot be read."""
    import optuna

    if not (directory / STUDY_FILE).is_file():
        return None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        return optuna.load_study(study_name=STUDY_NAME, storage=address(directory)).user_attrs.get(ABOUT)
    except Exception:  # of the database, or of Optuna; who opens the study reports it
        return None


def require_same(stored: object, given: Mapping[str, Any], directory: Path) -> None:
    """Raise unless a sweep is continued as it was begun.

    Args:
        stored: about the sweep that was begun, by `about_sweep`; nothing else is compared.
        given: the same of this one. A monitor of None is that of the best model, in any mode.
        directory: of the sweep.

    Raises:
        UsageError: if they differ; the message names each flag and key with both values.
    """
    if not isinstance(stored, dict):
        return
    changes = [f"{name} was {old}, is {new}" for name, old, new in _changes(stored, given)]
    if changes:
        raise UsageError(
            f"{shorten_text(str(directory))} has a sweep with other settings: "
            f"{shorten_text('; '.join(changes), ERROR_LIMIT)}; undo the change, or choose another --output_dir"
        )


def _changes(stored: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, old and new value of each setting that differs."""
    old_flags, new_flags = _by_flag(stored.get("flags")), _by_flag(given["flags"])
    for flag in {**old_flags, **new_flags}:
        if old_flags.get(flag) != new_flags.get(flag):
            yield flag, old_flags.get(flag, _NOT_GIVEN), new_flags.get(flag, _NOT_GIVEN)
    space = stored.get("space")
    old_space: dict[str, Any] = space if isinstance(space, dict) else {}
    for key in {**old_space, **given["space"]}:
        old, new = (yaml_value(side[key]) if key in side else _NOT_GIVEN for side in (old_space, given["space"]))
        if old != new:
            yield f"{key} in the space", old, new
    old_monitor, new_monitor = str(stored.get("monitor")), given["monitor"]
    if new_monitor is None and not old_monitor.endswith(f" {BEST}"):
        yield "--monitor", old_monitor, _NOT_GIVEN
    elif new_monitor not in (None, old_monitor):
        yield "--monitor", _shown_monitor(old_monitor), _shown_monitor(str(new_monitor))
    for name, shown in (("scenario", "the scenario"), ("sampler", "--sampler"), ("seed", "--seed")):
        if json.dumps(stored.get(name)) != json.dumps(given[name]):
            yield shown, str(stored.get(name)), str(given[name])


def _shown_monitor(monitor: str) -> str:
    return _NOT_GIVEN if monitor.endswith(f" {BEST}") else monitor


def _by_flag(words: Any) -> dict[str, str]:
    """Return flag -> its words; in any order and with any sign between them they mean the same."""
    found: dict[str, list[str]] = {}
    flag = ""
    for word in words if isinstance(words, list) else []:
        value = str(word)
        if value.startswith("--"):
            flag, sign, value = value.partition("=")
            found.setdefault(flag, [])
            if not sign:
                continue
        found.setdefault(flag, []).append(value)
    return {flag: " ".join(values) or "given" for flag, values in found.items()}
