"""Rules of a transfer: which weights take part, under which names."""

from __future__ import annotations

import pytest

from tfaip.trainer.transfer.params import WeightRules, expected_substitution
from tfaip.trainer.warmstart import WarmStartParams

PATHS = ["encoder/conv/0/kernel", "encoder/norm/gamma", "head/kernel"]


@pytest.mark.parametrize(
    ("include", "exclude", "selected"),
    [
        (None, None, PATHS),
        ("encoder", None, PATHS[:2]),
        ("encoder", ".*norm.*", PATHS[:1]),
        (".*kernel", "encoder", PATHS[2:]),
    ],
)
def test_include_and_exclude(include: str | None, exclude: str | None, selected: list[str]) -> None:
    rules = WeightRules(include=include, exclude=exclude)
    assert [path for path in PATHS if rules.selects(path)] == selected


def test_substitutions_act_one_after_the_other() -> None:
    rules = WeightRules(rename=["^enc/->encoder/", r"conv_(\d+)->conv/\1", "/w$->/kernel"])
    assert rules.renamed_source("enc/conv_12/w") == "encoder/conv/12/kernel"
    assert rules.renamed_source("head/kernel") == "head/kernel"
    # An empty right side removes.
    assert WeightRules(rename=["^model/->"]).renamed_source("model/head/kernel") == "head/kernel"


def test_targets_are_renamed_before_they_get_the_suffix() -> None:
    rules = WarmStartParams(rename_targets=["^head->classifier"], add_suffix="/average")
    assert rules.wanted_name("head/kernel") == "classifier/kernel/average"
    assert rules.wanted_name("encoder/kernel") == "encoder/kernel/average"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "a regular expression old"),
        ("", "a regular expression old"),
        ("(->a", "a regular expression old (missing ), unterminated subpattern at position 0)"),
        (r"a->\1", "a replacement new (invalid group reference 1 at position 1)"),
        (r"a->\g<x>", "a replacement new (unknown group name 'x')"),
        (r"(a)->\1b", None),
    ],
)
def test_what_is_no_substitution(text: str, reason: str | None) -> None:
    assert expected_substitution(text) == (None if reason is None else f"'old->new' with {reason}")
