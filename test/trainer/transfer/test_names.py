"""Rules of a transfer: which weights take part, under which names."""

from __future__ import annotations

import pytest

from tfaip.trainer.transfer import NameRules

PATHS = ["encoder/conv/0/kernel", "encoder/norm/gamma", "head/kernel"]


@pytest.mark.parametrize(
    ("include", "exclude", "selected"),
    [
        (None, None, PATHS),
        ("encoder", None, PATHS[:2]),
        (None, "head", PATHS[:2]),
        ("encoder", ".*norm.*", PATHS[:1]),
        (".*kernel", "encoder", PATHS[2:]),
    ],
)
def test_include_and_exclude(include: str | None, exclude: str | None, selected: list[str]) -> None:
    rules = NameRules.parse("--f", include=include, exclude=exclude)
    assert [path for path in PATHS if rules.selects(path)] == selected


def test_substitutions_act_one_after_the_other() -> None:
    rules = NameRules.parse("--f", rename=["^enc/->encoder/", r"conv_(\d+)->conv/\1", "/w$->/kernel"])
    assert rules.renamed_source("enc/conv_12/w") == "encoder/conv/12/kernel"
    assert rules.renamed_source("head/kernel") == "head/kernel"
    # An empty right side removes.
    assert NameRules.parse("--f", rename=["^model/->"]).renamed_source("model/head/kernel") == "head/kernel"


def test_targets_are_renamed_before_they_get_the_suffix() -> None:
    rules = NameRules.parse("--f", rename_targets=["^head->classifier"], add_suffix="/average")
    assert rules.wanted_name("head/kernel") == "classifier/kernel/average"
    assert rules.wanted_name("encoder/kernel") == "encoder/kernel/average"


@pytest.mark.parametrize("text", ["a", "->b", "a->b->c", ""])
def test_what_is_no_substitution(text: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}' is no substitution: expected --f.rename_targets 'old->new'"):
        NameRules.parse("--f", rename_targets=[text])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"include": "("}, r"'\(' is not a regular expression .*: change --f.include"),
        ({"exclude": "("}, r"'\(' is not a regular expression .*: change --f.exclude"),
        ({"rename": ["(->a"]}, r"'\(' is not a regular expression .*: change --f.rename"),
        ({"rename": [r"a->\1"]}, r"'\\\\1' cannot replace 'a' \(invalid group reference 1.*\): change --f.rename"),
        ({"rename": [r"a->\g<x>"]}, r"'\\\\g<x>' cannot replace 'a' \(.*x.*\): change --f.rename"),
    ],
)
def test_what_is_no_regular_expression(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{message}$"):
        NameRules.parse("--f", **arguments)
