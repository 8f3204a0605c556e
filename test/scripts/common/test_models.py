"""The generator that flags of the data mean."""

from __future__ import annotations

import pytest

from test.support.tiny.scenario import TinyGenerator
from tfaip.data.pipeline.datagenerator import DataGeneratorParams, RawDataGenerator
from tfaip.errors import UsageError
from tfaip.scripts.common.models import generator_of_flags


class ScrollParams(DataGeneratorParams):
    """Samples of scrolls."""

    scrolls: int = 3

    @staticmethod
    def cls() -> type[RawDataGenerator]:
        return RawDataGenerator


class LongScrollParams(ScrollParams):
    """Of long ones: the only class that no other one with this field derives from."""


class LeafParams(ScrollParams):
    """Of leaves."""

    leaves: int = 1


class OtherLeafParams(ScrollParams):
    """Of other leaves."""

    leaves: int = 2


def test_the_class_follows_from_the_flags() -> None:
    default = TinyGenerator(seed=7)
    for flags in ([], ["--out", "x"], ["--data.samples", "3"], ["--data.seed=4", "--data.samples=3"]):
        assert generator_of_flags(flags, default) is default
    # A class that is chosen, and an unknown flag: the parser decides.
    for flags in (["--data", "Leaf", "--data.leaves", "1"], ["--data=Leaf", "--data.leaves", "1"], ["--data.leafs=1"]):
        assert generator_of_flags(flags, default) is default
    assert generator_of_flags(["--data.leaves", "1", "--data.samples", "3"], None) is None


def test_a_class_that_others_derive_from_is_not_meant() -> None:
    class LastLeafParams(LeafParams, OtherLeafParams):
        """The most derived one."""

        last: int = 0

    assert type(generator_of_flags(["--data.leaves=1"], TinyGenerator())) is LastLeafParams


def test_flags_of_several_classes() -> None:
    with pytest.raises(UsageError, match=r"^--data\.scrolls may be a flag of .*LongScroll.*: choose one with --data$"):
        generator_of_flags(["--data.scrolls", "3"], TinyGenerator())
