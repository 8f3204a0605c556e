"""Flags, values and stored params of scenarios: a change that is not meant shows as a difference."""

from __future__ import annotations

import difflib

import pytest

from test.guards.snapshots import PARAMS, READ, SCENARIOS, SNAPSHOTS, endings_of, texts_in_new_process

pytestmark = pytest.mark.guard
REWRITE = "after a change that is meant: python -m test.guards.snapshots"


@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_has_changed(name: str) -> None:
    endings = endings_of(name)
    texts = texts_in_new_process(name, *endings, *([READ] if PARAMS in endings else []))
    changes: list[str] = []
    for ending in endings:
        file = f"{name}.{ending}"
        stored = (SNAPSHOTS / file).read_text()
        changes += difflib.unified_diff(stored.splitlines(), texts[ending].splitlines(), file, "now", lineterm="")
    assert not changes, "\n".join([REWRITE, *changes])
    if READ in texts:
        assert texts[READ] == texts[PARAMS]


def test_there_are_no_other_files() -> None:
    expected = [f"{name}.{ending}" for name in SCENARIOS for ending in endings_of(name)]
    assert sorted(path.name for path in SNAPSHOTS.iterdir()) == sorted(expected)
