"""Each private name of another project that the package uses, and that `tools/budgets.toml` lists, exists."""

import inspect
import pkgutil
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).parents[2] / "tools" / "budgets.toml"
LISTED = tomllib.loads(TABLE.read_text(encoding="utf-8"))
NAMES = [(entry, name) for entry in LISTED["private"] for name in entry["names"].split()]


@pytest.mark.parametrize(("entry", "name"), NAMES, ids=[f"{entry['of']}.{name}" for entry, name in NAMES])
def test_a_listed_name_exists(entry: dict[str, str], name: str) -> None:
    found = exists(f"{entry['of']}.{name}")
    assert found, f"{entry['of']} has no {name} any more: mend tfaip/{entry['used_in']} ({entry['reason']})"


def exists(path: str) -> bool:
    """Return True for a member of a module or class, also for one that only the instances of the class have."""
    owner, _, name = path.rpartition(".")
    found = pkgutil.resolve_name(owner)
    return hasattr(found, name) or any(re.search(rf"(?<!\w){name}(?!\w)", source) for source in sources_of(found))


@cache
def sources_of(found: Any) -> list[str]:
    """Return the source of a class and of its bases; of a module the texts in it, which may name another one."""
    if inspect.ismodule(found):
        return re.findall(r'"[\w.]+"', inspect.getsource(found))
    return [inspect.getsource(cls) for cls in inspect.getmro(found) if cls.__module__ != "builtins"]
