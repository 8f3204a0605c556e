"""Classes that are params and code in one: what reaches the tree, and what is never called."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pytest

from tfaip import Data, DataBaseParams, Generator, PipelineMode, Sample, Spec, option, shared
from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams, RawDataGenerator
from tfaip.params import ParamsBase, post_init
from tfaip.params.classes import is_part
from tfaip.params.commandline import ParamsParser
from tfaip.params.resolver import ClassChoice
from tfaip.params.settings import prepare, require_readable
from tfaip.params.tree import diff, walk


class Untouchable(Generator):
    """Fails wherever its code is called, as code that reads files may."""

    size: int = option(5, "Number of samples", low=1)
    files: list[str] = []

    def __len__(self) -> int:
        raise AssertionError("called")

    def __getitem__(self, index: int) -> Sample:
        raise AssertionError("called")

    def __bool__(self) -> bool:
        raise AssertionError("called")

    def __iter__(self) -> Iterator[Sample]:
        raise AssertionError("called")

    def __contains__(self, item: Any) -> bool:
        raise AssertionError("called")

    def generate(self) -> Any:
        raise AssertionError("called")


def sent(value: Any) -> Any:
    """The value as a worker process receives it."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301


class Tree(ParamsBase):
    source: DataGeneratorParams = Untouchable()
    optional: Untouchable | None = Untouchable(size=2)
    several: list[DataGeneratorParams] = [Untouchable(size=3)]
    named: dict[str, DataGeneratorParams] = {"a": Untouchable(size=4)}


def parsed(*flags: str) -> Any:
    parser = ParamsParser("prog")
    parser.add_params("tree", Tree, default=Tree())
    return parser.parse(flags).tree


def test_a_tree_calls_no_code_of_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree()
    assert tree == copy.copy(tree) == copy.deepcopy(tree) == sent(tree)
    assert Tree.from_json(tree.to_json()) == tree != Tree(optional=None)
    assert "Untouchable(size=3, files=[])" in repr(tree)
    assert ("several.0.size", 3) in list(walk(tree))
    assert [str(change) for change in diff(tree, Tree(optional=Untouchable(size=9)))] == ["optional.size: 2 -> 9"]
    post_init(tree)
    prepare(tree, "tree")
    require_readable(tree, Tree, "tree")
    changed = parsed(
        "--tree.source.size", "7", "--tree.several", "Untouchable", "Untouchable", "--tree.named.a.size", "6"
    )
    assert (changed.source.size, len(changed.several), changed.named["a"].size) == (7, 2, 6)
    for flag in ("--help", "--print_config"):
        with pytest.raises(SystemExit):
            parsed(flag)
    assert "--tree.source.size int = 5" in capsys.readouterr().out


class Rows(Generator):
    """Stores what it computes."""

    numbers: list[int] = [1, 2]
    table: Any = option(None, "Array in memory", mode="ignore")
    rows: list[DataBaseParams] = []

    @cached_property
    def total(self) -> int:
        return sum(self.numbers)

    def __len__(self) -> int:
        self.numbers.append(3)
        self.rows[0].pre_proc.num_threads = 2  # type: ignore[attr-defined]
        self.anything = open  # cannot be pickled by value
        return len(self.numbers)


def test_what_code_stores_does_not_reach_the_tree() -> None:
    table = np.arange(3)
    params = Rows(table=table, rows=[DataBaseParams()])
    before = repr(params)
    generator: Any = params.create(PipelineMode.TRAINING)
    assert type(generator) is Rows
    assert (generator.mode, generator.params is params, generator.table is table) == ("training", True, True)
    assert len(generator) == 3
    assert repr(params) == before
    assert not hasattr(params, "anything")
    assert params.create(PipelineMode.TRAINING).numbers == [1, 2]  # type: ignore[attr-defined]


def test_computed_values_follow_the_fields_and_stay_out_of_copies() -> None:
    params = Rows(numbers=[1, 2])
    assert params.total == 3
    assert "total" not in vars(copy.copy(params)) | vars(sent(params))
    params.numbers = [5]
    assert params.total == 5
    created: Any = params.create(PipelineMode.TRAINING)
    created.numbers = [7]
    assert (created.total, params.total) == (7, 5)
    assert vars(sent(created))["total"] == 7


def test_what_params_refuse() -> None:
    class Points(Data):
        inputs = {"x": Spec(2)}
        mode: ClassVar[str] = "none"
        size: int = 1

    points: Any = Points()
    assert [name for name, _ in walk(points) if name in ("mode", "inputs", "size")] == ["size"]
    for part, name, message in [
        (points, "inputs", r"Points.inputs belongs to the class, .*: set it in a subclass"),
        (Rows(), "sizes", r"Rows.sizes does not exist; .*these are params.*cached_property"),
        (Rows(), "nothing", r"Rows.nothing does not exist; (?!.*_is_created)"),
    ]:
        with pytest.raises(AttributeError, match=message):
            setattr(part, name, 3)
    something_else = r"since .* is something else in Generator"
    for name in ("mode", "params", "generate"):
        with pytest.raises(TypeError, match=rf"Bad\.{name} cannot be shared, {something_else}"):
            type("Bad", (Generator,), {"__annotations__": {name: DataBaseParams}, name: shared()})
    for name in ("mode", "params", "create", "generate", "in_memory", "to_json", "cls"):
        with pytest.raises(TypeError, match=rf"Bad\.{name} cannot be a field, {something_else}"):
            type("Bad", (Generator,), {"__annotations__": {name: "int"}, name: 1})
    with pytest.raises(TypeError, match=r"Bad has an __init__, but its fields are its params, .*cached_property"):
        type("Bad", (Generator,), {"__init__": lambda self: None})


def test_a_part_may_name_another_class() -> None:
    class Named(Generator, cls="tfaip.data.pipeline.datagenerator:RawDataGenerator"):
        samples: list[Sample] = []

    assert not is_part(Named)
    assert type(Named().create(PipelineMode.TRAINING)) is RawDataGenerator


def test_parts_and_pairs_are_accepted_alike() -> None:
    params = Untouchable()
    assert isinstance(params, DataGeneratorParams)
    assert params.cls() is Untouchable is type(params).cls()
    assert isinstance(params.create(PipelineMode.PREDICTION), DataGenerator)
    assert Untouchable in ClassChoice(DataGeneratorParams, {}).classes
    assert Generator not in ClassChoice(DataGeneratorParams, {}).classes
