"""Classes that are params and code in one, and values that are declared once and filled in from the tree."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from test.params.cli_params import parser_of
from tfaip import (
    Data,
    DataBaseParams,
    Evaluator,
    Generator,
    ModelBaseParams,
    PipelineMode,
    Processor,
    Sample,
    ScenarioBaseParams,
    Spec,
    TrainerParams,
    TrainerPipelineParams,
    option,
    shared,
)
from tfaip.data.pipeline.datagenerator import DataGeneratorParams, RawDataGenerator
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, post_init
from tfaip.params.choices import ClassChoice
from tfaip.params.classes import is_part
from tfaip.params.settings import prepare, require_readable
from tfaip.params.stored import flat_params
from tfaip.params.tree import diff, fill_shared, with_shared


class Tone(ParamsBase):
    frequency: int = 440


class Sounds(Data):
    rate: int = 8
    tone: Tone = Tone()
    inputs = {"x": Spec("rate")}


class Notes(Generator):
    size: int = 3
    data: Sounds = shared()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"x": [float(index)] * self.data.rate})


class PairParams(DataGeneratorParams, cls=":Notes"):
    """Of the older form."""

    data: Sounds = shared()
    tone: Tone | None = shared()


class Add(Processor):
    data: Sounds = shared()

    def apply(self, sample: Sample) -> Sample:
        return sample.new_inputs({"x": [x + self.data.rate for x in sample.inputs["x"]]})


class Model(ModelBaseParams):
    data: Sounds = shared()


class Count(Evaluator):
    data: Sounds = shared()

    def result(self) -> dict[str, int]:
        return {"rate": self.data.rate}


class Scenario(ScenarioBaseParams[Sounds, Model]):
    evaluator: Count = Count()


class Pipelines(TrainerPipelineParams[Notes, PairParams]): ...


class Trainer(TrainerParams[Scenario, Pipelines]): ...


def trainer() -> Trainer:
    params = Trainer()
    params.scenario.data.pre_proc = SequentialProcessorPipelineParams(processors=[Add()])
    post_init(params)
    return params


def sharing(params: Trainer) -> list[Any]:
    own, gen = params.scenario, params.gen
    return [gen.train, gen.val, own.model, own.evaluator, own.data.pre_proc.processors[0]]  # type: ignore[attr-defined]


def check(params: Trainer) -> None:
    """All parts hold the very data of the tree."""
    assert [part.data is params.scenario.data for part in sharing(params)] == [True] * 5
    assert params.gen.val.tone is params.scenario.data.tone


def test_all_parts_hold_the_params_of_the_tree_and_copies_their_own() -> None:
    params = trainer()
    check(params)
    params.scenario.data = Sounds(rate=5, pre_proc=params.scenario.data.pre_proc)
    post_init(params)
    for tree in (params, copy.deepcopy(params), sent(params)):
        check(tree)
        assert [part.data.rate for part in sharing(tree)] == [5] * 5
        assert (tree.scenario.data is params.scenario.data) == (tree is params)


def test_json_holds_no_copy() -> None:
    params = trainer()
    params.scenario.data.rate = 16
    text = params.to_json()
    assert (text.count('"rate"'), text.count("Sounds")) == (1, 1)
    loaded = Trainer.from_json(text)
    check(loaded)
    assert loaded == params
    loaded.set_flags({"data.rate": "32"})
    assert loaded.gen.train.data.rate == 32
    with pytest.raises(UsageError, match=r"unknown flag --train\.data\.rate"):
        loaded.set_flags({"train.data.rate": "32"})


def test_outside_of_a_tree_it_is_given_or_set_by_hand_or_filled_in_by_the_pipeline() -> None:
    with pytest.raises(AttributeError) as info:
        _ = Notes().data
    assert str(info.value) == (
        "Notes.data is not there yet: it is filled in from the scenario that the part belongs to; outside of one, give "
        "the Sounds, as in Notes(data=Sounds(...))"
    )
    assert not hasattr(Notes(), "data")
    assert str(Notes()) == "Notes(size=3)"
    sounds = Sounds(rate=2)
    given, later = Notes(size=1, data=sounds), Notes(1)  # a keyword, never by position
    later.data = sounds
    for notes in (given, later):
        generator: Any = notes.create(PipelineMode.TRAINING)
        assert generator[0].inputs == {"x": [0.0, 0.0]}
        assert generator.data is sounds is notes.data
    assert given == later == Notes(1)
    assert dataclasses.replace(given, size=5).size == 5
    with pytest.raises(TypeError):
        Notes(1, sounds)  # type: ignore[misc, arg-type, call-arg]
    data = Sounds(rate=2, pre_proc=SequentialProcessorPipelineParams(processors=[Add()])).create()
    pipeline = data.create_pipeline(trainer().gen.setup.val, Notes(size=2))
    with pipeline.generate_input_samples(auto_repeat=False) as samples:
        assert [sample.inputs["x"] for sample in samples] == [[2.0, 2.0], [3.0, 3.0]]
    alone: Any = Add().create(Sounds(rate=4), PipelineMode.TRAINING)
    assert alone.apply(Sample(inputs={"x": [1.0]})).inputs == {"x": [5.0]}


class Low(Sounds):
    pass


class Lower(Notes):
    data: Low = shared()


class Twice(ScenarioBaseParams[Sounds, Model]):
    other: Sounds = Sounds(rate=99)
    low: Tone = Tone(1)
    high: Tone = Tone(2)


class NeedsTone(Generator):
    tone: Tone = shared()


class NeedsModel(Generator):
    model: ModelBaseParams = shared()
    other: PairParams = shared()


def test_several_and_missing_sources_are_named() -> None:
    twice = Twice()
    assert twice.model.data is twice.data  # which come first
    assert with_shared(Lower(), Low(rate=1)).data.rate == 1
    with pytest.raises(UsageError, match=r"Lower.data is shared: Low, .* its data are Sounds"):
        with_shared(Lower(), Sounds())
    with pytest.raises(UsageError, match=r"^NeedsTone.tone is shared: Tone, .* at low \(Tone\) and high \(Tone\)"):
        fill_shared(NeedsTone(), twice)
    params = trainer()
    params.gen.train = NeedsModel()  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"^NeedsModel.other \(gen.train.other\) is shared"):
        fill_shared(params, params.scenario)
    assert params.gen.train.model is params.scenario.model


def called(*_: Any) -> Any:
    raise AssertionError("called")


class Untouchable(Generator):
    """Fails wherever its code is called, as code that reads files may."""

    size: int = option(5, "Number of samples", low=1)
    files: list[str] = []
    __len__ = __getitem__ = __bool__ = __iter__ = __contains__ = generate = called  # type: ignore[assignment]


def sent(value: Any) -> Any:
    """The value as a worker process receives it."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301


class Tree(ParamsBase):
    source: DataGeneratorParams = Untouchable()
    optional: Untouchable | None = Untouchable(size=2)
    several: list[DataGeneratorParams] = [Untouchable(size=3)]
    named: dict[str, DataGeneratorParams] = {"a": Untouchable(size=4)}


def test_a_tree_calls_no_code_of_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    tree = Tree()
    assert tree == copy.copy(tree) == copy.deepcopy(tree) == sent(tree)
    assert Tree.from_json(tree.to_json()) == tree != Tree(optional=None)
    assert "Untouchable(size=3, files=[])" in repr(tree)
    assert flat_params(tree.to_dict())["several.0.size"] == 3
    assert [change.text(change.path) for change in diff(tree, Tree(optional=Untouchable(size=9)))] == [
        "optional.size: 2 -> 9"
    ]
    post_init(tree)
    prepare(tree, "tree")
    require_readable(tree, Tree, "tree")
    line = "--p.source.size 7 --p.several Untouchable Untouchable --p.named.a.size 6"
    changed = parser_of(Tree, tree).parse(line.split()).p
    assert (changed.source.size, len(changed.several), changed.named["a"].size) == (7, 2, 6)
    for flag in ("--help", "--print_config"):
        with pytest.raises(SystemExit):
            parser_of(Tree, tree).parse([flag])
    assert "--p.source.size int = 5" in capsys.readouterr().out


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


def test_what_code_stores_does_not_reach_the_tree_and_computed_values_follow_the_fields() -> None:
    table = np.arange(3)
    params = Rows(table=table, rows=[DataBaseParams()])
    before = repr(params)
    generator: Any = params.create(PipelineMode.TRAINING)
    assert type(generator) is Rows
    assert (generator.mode, generator.params is params, generator.table is table) == ("training", True, True)
    assert len(generator) == 3
    assert (repr(params), hasattr(params, "anything")) == (before, False)
    assert params.total == 3
    assert "total" not in vars(copy.copy(params)) | vars(sent(params))
    params.numbers = [5]
    assert params.total == 5
    created: Any = params.create(PipelineMode.TRAINING)
    created.numbers = [7]
    assert (created.total, params.total) == (7, 5)
    assert vars(sent(created))["total"] == 7


def test_what_params_refuse() -> None:
    with pytest.raises(TypeError, match=r"Bad.data = shared\(\) needs a class: write data: MyData = shared\(\)"):
        type("Bad", (Generator,), {"data": shared()})
    with pytest.raises(AttributeError, match=r"Sounds.inputs belongs to the class, .*: set it in a subclass"):
        Sounds().inputs = {}  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Rows.sizes does not exist; .*these are params.*cached_property"):
        Rows().sizes = 3  # type: ignore[attr-defined]
    for name in ("mode", "params", "create", "generate", "in_memory", "to_json", "cls"):
        with pytest.raises(TypeError, match=rf"Bad\.{name} cannot be a field, since .* is something else in Generator"):
            type("Bad", (Generator,), {"__annotations__": {name: "int"}, name: 1})
    with pytest.raises(TypeError, match=r"Bad has an __init__, but its fields are its params, .*cached_property"):
        type("Bad", (Generator,), {"__init__": lambda self: None})


def test_a_part_is_its_own_class_or_names_another() -> None:
    class Named(Generator, cls="tfaip.data.pipeline.datagenerator:RawDataGenerator"):
        samples: list[Sample] = []

    assert not is_part(Named)
    assert type(Named().create(PipelineMode.TRAINING)) is RawDataGenerator
    params = Untouchable()
    assert params.cls() is Untouchable is type(params).cls()
    classes = ClassChoice(DataGeneratorParams, {}).classes
    assert (Untouchable in classes, Generator in classes) == (True, False)
