"""Regular expressions on attribute paths: a whole path, or the whole path of something above."""

from __future__ import annotations

import re

import pytest

from tfaip.errors import UsageError
from tfaip.util.pathpatterns import compile_pattern, matching_paths, path_matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("encoder", "encoder", True),
        ("encoder", "encoder/conv/0/kernel", True),
        ("encoder/conv", "encoder/conv/0/kernel", True),
        (".*conv.*", "encoder/conv/0", True),
        (r".*/kernel", "encoder/conv/0/kernel", True),
        ("encoder", "my_encoder/kernel", False),
        ("enc", "encoder/kernel", False),
        ("conv", "encoder/conv/0", False),
        ("kernel", "head/kernel", False),
        ("a|b", "b/kernel", True),
        ("a|b", "ab", False),
        ("", "kernel", False),
    ],
)
def test_path_matches(pattern: str, path: str, expected: bool) -> None:
    assert path_matches(re.compile(pattern), path) is expected


def test_a_pattern_that_is_none_names_its_flag() -> None:
    assert compile_pattern("a.*", "--flag").pattern == "a.*"
    with pytest.raises(ValueError, match=r"^'\[a' is not a regular expression \(.*\): change --flag$"):
        compile_pattern("[a", "--flag")


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[[a]", r"Possible nested set at position 1: escape what is meant literally, as in \["),
        ("a[b--c]", r"Possible set difference at position 3: escape what is meant literally, as in \["),
        ("x{4294967296}", "the repetition number is too large"),
        ("(" * 2000 + ")" * 2000, "maximum recursion depth exceeded"),
        ("a(?i)", "global flags not at the start of the expression at position 1"),
    ],
)
def test_patterns_that_python_warns_of_or_cannot_compile_are_one_line(pattern: str, reason: str) -> None:
    with pytest.raises(ValueError, match="change --flag$") as error:  # a warning would fail the test
        compile_pattern(pattern, "--flag")
    assert f"is not a regular expression ({reason}" in str(error.value)
    assert len(str(error.value)) < 300


def test_matching_paths_are_in_their_order() -> None:
    paths = ["encoder/kernel", "head/kernel", "encoder/bias"]
    assert matching_paths("encoder|.*/bias", "--flag", "weight", paths) == ["encoder/kernel", "encoder/bias"]


def test_a_pattern_that_matches_nothing_lists_the_paths() -> None:
    with pytest.raises(
        UsageError, match=r"^--flag 'bias' matches no weight; it must match a whole path, .* the weights are a/bias, b$"
    ):
        matching_paths("bias", "--flag", "weight", ["a/bias", "b"])
