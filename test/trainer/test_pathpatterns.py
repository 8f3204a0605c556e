"""Regular expressions on attribute paths: a whole path, or the whole path of something above."""

from __future__ import annotations

import re

import pytest

from tfaip.errors import UsageError
from tfaip.trainer.pathpatterns import expected_pattern, matching_paths, path_matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("encoder", "encoder", True),
        ("encoder", "encoder/conv/0/kernel", True),
        ("encoder/conv", "encoder/conv/0/kernel", True),
        (".*conv.*", "encoder/conv/0", True),
        ("encoder", "my_encoder/kernel", False),
        ("conv", "encoder/conv/0", False),
        ("a|b", "b/kernel", True),
        ("a|b", "ab", False),
        ("", "kernel", False),
    ],
)
def test_path_matches(pattern: str, path: str, expected: bool) -> None:
    assert path_matches(re.compile(pattern), path) is expected


def test_what_is_no_pattern_is_told_in_words() -> None:
    assert expected_pattern("a.*") is None
    assert expected_pattern("[a") == "a regular expression (unterminated character set at position 0)"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[[a]", "Possible nested set at position 1: escape what is meant literally, as in \\["),
        ("x{4294967296}", "the repetition number is too large"),
        ("(" * 2000 + ")" * 2000, "maximum recursion depth exceeded"),
    ],
)
def test_patterns_that_python_warns_of_or_cannot_compile_are_one_line(pattern: str, reason: str) -> None:
    expected = expected_pattern(pattern)  # a warning would fail the test
    assert expected is not None
    assert expected.startswith(f"a regular expression ({reason}")
    assert len(expected) < 200


def test_matching_paths_are_in_their_order() -> None:
    paths = ["encoder/kernel", "head/kernel", "encoder/bias"]
    assert matching_paths("encoder|.*/bias", "groups.0.match", "weight", paths) == ["encoder/kernel", "encoder/bias"]


def test_a_pattern_that_matches_nothing_lists_the_paths() -> None:
    with pytest.raises(UsageError) as error:
        matching_paths("bias", "groups.0.match", "weight", ["a/bias", "b"])
    assert str(error.value) == (
        "groups.0.match 'bias' matches no weight; it must match a whole path, e.g. '.*conv.*'; "
        "the weights are a/bias, b"
    )
