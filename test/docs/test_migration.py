"""The page on the migration from tfaip 1.2 says what the code does: every default, every kind of finding."""

from __future__ import annotations

import ast
import re
from typing import Any

from test.support.commands import REPOSITORY
from tfaip.scenario.checking.changeddefaults import CHANGED_DEFAULTS
from tfaip.scenario.checking.finding import Kind
from tfaip.scripts.check_scenario import USAGE

PAGE = (REPOSITORY / "docs" / "migration_1.2.md").read_text()
DEFAULT = re.compile(r"^\| `(\w+\.\w+)` \| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)


def table() -> dict[str, tuple[Any, Any]]:
    """Option -> its default in 1.2 and now, as the page has them."""
    section = PAGE.partition("\n## Defaults\n")[2].partition("\n## ")[0]
    return {name: (ast.literal_eval(old), ast.literal_eval(new)) for name, old, new in DEFAULT.findall(section)}


def test_every_changed_default_has_a_row_with_both_values() -> None:
    expected = {changed.name: (changed.former, changed.present()) for changed in CHANGED_DEFAULTS}
    assert table() == expected
    assert len(table()) == len(CHANGED_DEFAULTS) == 10


def test_rows_are_about_values_that_differ() -> None:
    assert [name for name, (old, new) in table().items() if old == new and type(old) is type(new)] == []


def test_every_kind_of_finding_is_explained() -> None:
    section = PAGE.partition("\n## Code\n")[0]
    explained = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert sorted(explained) == sorted(Kind)
    assert re.findall(r"^  ([a-z]+(?:-[a-z]+)*) {2,}\S", USAGE, re.MULTILINE) == [str(kind) for kind in Kind]
