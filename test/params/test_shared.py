"""Values that are declared once and filled in from the tree."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from tfaip import (
    Data,
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
    TrainerPipelineParamsBase,
    shared,
)
from tfaip.data.pipeline.datagenerator import DataGenerator, DataGeneratorParams
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.errors import UsageError
from tfaip.export.trainingdata import TrainingDataParams
from tfaip.params import ParamsBase, post_init
from tfaip.params.commandline import ParamsParser
from tfaip.params.tree import fill_shared, walk, with_shared


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


class PairParams(DataGeneratorParams, cls=":Pair"):
    """Of the older form."""

    data: Sounds = shared()
    tone: Tone | None = shared()


class Pair(DataGenerator[PairParams]):
    def generate(self) -> list[Sample]:
        tone = self.params.tone
        assert tone is not None
        return [Sample(inputs={"x": [tone.frequency] * self.params.data.rate})]


class Add(Processor):
    data: Sounds = shared()

    def apply(self, sample: Sample) -> Sample:
        return sample.new_inputs({"x": [x + self.data.rate for x in sample.inputs["x"]]})


class Model(ModelBaseParams):
    data: Sounds = shared()


class Count(Evaluator):
    limit: int = 1
    data: Sounds = shared()

    def result(self) -> dict[str, int]:
        return {"rate": self.data.rate}


class Scenario(ScenarioBaseParams[Sounds, Model]):
    evaluator: Count = Count()


class Pipelines(TrainerPipelineParams[Notes, PairParams]):
    pass


class Trainer(TrainerParams[Scenario, Pipelines]):
    pass


def trainer() -> Trainer:
    params = Trainer()
    params.scenario.data.pre_proc = SequentialProcessorPipelineParams(processors=[Add()])
    post_init(params)
    return params


def sharing(params: Trainer) -> list[Any]:
    return [
        params.gen.train,
        params.gen.val,
        params.scenario.model,
        params.scenario.evaluator,
        params.scenario.data.pre_proc.processors[0],  # type: ignore[attr-defined]
    ]


def check(params: Trainer) -> None:
    """All parts hold the very data of the tree."""
    assert [part.data is params.scenario.data for part in sharing(params)] == [True] * 5
    assert params.gen.val.tone is params.scenario.data.tone


def test_all_parts_hold_the_params_of_the_tree_and_copies_their_own() -> None:
    params = trainer()
    check(params)
    params.scenario.data = Sounds(rate=5, pre_proc=params.scenario.data.pre_proc)
    post_init(params)
    for tree in (params, copy.deepcopy(params), pickle.loads(pickle.dumps(params))):  # noqa: S301
        check(tree)
        assert [part.data.rate for part in sharing(tree)] == [5] * 5
        assert (tree.scenario.data is params.scenario.data) == (tree is params)


def test_json_holds_no_copy() -> None:
    params = trainer()
    params.scenario.data.rate = 16
    text = params.to_json()
    assert text.count('"rate"') == 1
    assert '"data": {"__cls__": "test.params.test_shared:Sounds"' in text
    assert text.count("Sounds") == 1
    loaded = Trainer.from_json(text)
    check(loaded)
    assert loaded == params
    assert not [path for path, _ in walk(params.gen) if "data" in path]


def test_flags_are_seen_by_all_parts() -> None:
    parser = ParamsParser("prog")
    parser.add_params("trainer", Trainer, default=trainer())
    params = parser.parse(["--trainer.output_dir", "x", "--data.rate", "32"]).trainer
    check(params)
    assert params.gen.train.data.rate == 32
    with pytest.raises(UsageError, match=r"unknown flag --train\.data\.rate"):
        parser.parse(["--trainer.output_dir", "x", "--train.data.rate", "32"])


def test_outside_of_a_tree_the_error_says_what_to_do() -> None:
    with pytest.raises(AttributeError) as info:
        _ = Notes().data
    assert str(info.value) == (
        "Notes.data is not there yet: it is filled in from the scenario that the part belongs to; outside of one, give "
        "the Sounds, as in Notes(data=Sounds(...))"
    )
    assert not hasattr(Notes(), "data")
    assert str(Notes()) == "Notes(size=3)"


def test_it_can_be_given_and_set_by_hand() -> None:
    sounds = Sounds(rate=2)
    given = Notes(size=1, data=sounds)  # a keyword, never by position
    generator: Any = given.create(PipelineMode.TRAINING)
    assert generator[0].inputs == {"x": [0.0, 0.0]}
    assert generator.data is sounds is given.data
    assert given == Notes(1)
    later = Notes()
    later.data = sounds
    assert later.data is sounds
    assert dataclasses.replace(given, size=5).size == 5
    with pytest.raises(TypeError):
        Notes(1, sounds)  # type: ignore[misc, arg-type, call-arg]


def test_pipelines_fill_in_what_belongs_to_no_tree() -> None:
    data = Sounds(rate=2, pre_proc=SequentialProcessorPipelineParams(processors=[Add()])).create()
    generator = Notes(size=2)
    pipeline = data.create_pipeline(trainer().gen.setup.val, generator)
    with pipeline.generate_input_samples(auto_repeat=False) as samples:
        assert [sample.inputs["x"] for sample in samples] == [[2.0, 2.0], [3.0, 3.0]]
    assert not hasattr(generator, "data")  # the caller's object stays as it is
    with data.create_pipeline(trainer().gen.setup.val, PairParams()).generate_input_samples(False) as samples:
        assert [sample.inputs["x"] for sample in samples] == [[442, 442]]


def test_processors_alone_get_the_data_that_they_are_created_with() -> None:
    processor: Any = Add().create(Sounds(rate=3), PipelineMode.TRAINING)
    assert processor.apply(Sample(inputs={"x": [1]})).inputs == {"x": [4]}


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
    with pytest.raises(UsageError) as info:
        fill_shared(NeedsModel(), params.scenario)
    assert str(info.value) == (
        "NeedsModel.other is shared: PairParams, which the scenario does not have; its data are Sounds"
    )
    params.gen.train = NeedsModel()  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"^NeedsModel.other \(gen.train.other\) is shared"):
        fill_shared(params, params.scenario)
    assert params.gen.train.model is params.scenario.model


class InCode(TrainerPipelineParamsBase[Notes, Notes]):
    """Makes its generators of what it shares."""

    data: Sounds = shared()

    def train_gen(self) -> Notes:
        return Notes(size=self.data.rate)

    def val_gen(self) -> Notes:
        return Notes(size=2 * self.data.rate)


def test_generators_may_be_made_of_what_is_shared() -> None:
    class InCodeTrainer(TrainerParams[Scenario, InCode]):
        pass

    params = InCodeTrainer()
    params.scenario.data.rate = 3
    assert (params.gen.train_gen().size, params.gen.val_gen().size) == (3, 6)
    # As a model directory stores it, without the scenario.
    stored = TrainingDataParams.from_dict(TrainingDataParams(params.gen).to_dict(), trusted=["test"])
    assert not hasattr(stored.gen, "data")
    fill_shared(stored, params.scenario)
    assert stored.gen.val_gen().size == 6


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(TypeError, match=r"Bad.data = shared\(\) needs a class: write data: MyData = shared\(\)"):
        type("Bad", (Generator,), {"data": shared()})
    with pytest.raises(TypeError, match=r"Bad.size = shared\(\) would hide a field"):
        type("Bad", (Notes,), {"__annotations__": {"size": "Sounds"}, "size": shared()})

    class Union(Generator):
        data: Sounds | Tone = shared()

    with pytest.raises(TypeError, match=r"Union.data = shared\(\) is annotated with Sounds \| Tone, expected a class"):
        fill_shared(Union(), Sounds())
