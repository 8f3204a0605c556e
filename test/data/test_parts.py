"""Data, generators and processors in one class each give the bytes of pairs of classes, with and without workers."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from test.data.support import (
    NoiseParams,
    epoch,
    make_pipeline,
    row,
    rows,
)
from tfaip import Data, Generator, PipelineMode, Processor, Sample, Spec, StreamProcessor, shared
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.specs import TensorSpec


class ShortData(Data):
    """The data of `RowData`."""

    inputs = {"x": Spec(None)}  # noqa: RUF012
    targets = {"y": Spec(1, int)}  # noqa: RUF012
    padding = {"x": -1}  # noqa: RUF012
    length_of = "x"


class ShortRows(Generator):
    count: int = 10

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        self.last = index
        return row(index)


class ShortNoise(Processor):
    high: int = 1000

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        noise = int(rng.integers(self.high))
        return sample.new_inputs({"x": sample.inputs["x"] + noise}).new_targets({"y": sample.targets["y"] + noise})


class Plain(Processor, modes="training"):
    def apply(self, sample: Sample) -> Sample:
        return sample.new_inputs({"x": sample.inputs["x"] * 2})


class Several(Processor, modes=["training", PipelineMode.EVALUATION]):
    pass


class PairOfModes(DataProcessorParams, cls="test.data.support:Noise", modes=PipelineMode.PREDICTION):
    pass


def test_modes_of_a_class() -> None:
    assert Plain().modes == {PipelineMode.TRAINING}
    assert Several().modes == {PipelineMode.TRAINING, PipelineMode.EVALUATION}
    assert PairOfModes().modes == {PipelineMode.PREDICTION}
    assert Plain(modes=set()).modes == set()
    assert ShortNoise().modes == set(PipelineMode)
    assert Plain.__dataclass_fields__["modes"].metadata["help"] == "Modes in which the processor runs"
    Plain().modes.clear()
    assert Plain().modes == {PipelineMode.TRAINING}
    with pytest.raises(TypeError, match=r"Bad: modes='train', expected one or several of 'training', 'evaluation'"):
        type("Bad", (Processor,), {}, modes="train")


def test_the_kind_of_a_processor_must_fit() -> None:
    with pytest.raises(TypeError, match=r"Bad\.generate would never be called: derive from StreamProcessor"):
        type("Bad", (Processor,), {"generate": lambda self, samples: samples})
    with pytest.raises(TypeError, match=r"Bad\.apply would never be called: derive from Processor"):
        type("Bad", (StreamProcessor,), {"apply": lambda self, sample: sample})
    with pytest.raises(NotImplementedError, match="override apply in Several"):
        list(
            SequentialProcessorPipelineParams(processors=[Several()]).create(DataPipelineParams(), None).apply([row(1)])
        )


class Folder(Data):
    """Classes are the files of a folder."""

    folder: str = ""
    height: int = 5
    inputs = {"img": Spec(None, "height", dtype="uint8"), "one_hot": Spec("num_classes")}  # noqa: RUF012
    targets = {"label": Spec(1, int)}  # noqa: RUF012
    meta = {"name": Spec(1, str)}  # noqa: RUF012
    padding = {"label": -1, "name": "?"}  # noqa: RUF012

    @cached_property
    def classes(self) -> list[str]:
        return sorted(path.name for path in Path(self.folder).iterdir())

    @property
    def num_classes(self) -> int:
        return len(self.classes)


def test_specs_name_fields_and_what_is_found_on_disk(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).touch()
    params = Folder(folder=str(tmp_path), height=7)
    data = params.create()
    assert data.input_layer_specs() == {"img": TensorSpec((None, 7), "uint8"), "one_hot": TensorSpec((2,), "float32")}
    assert data.target_layer_specs() == {"label": TensorSpec((1,), "int32")}
    assert data.padding_values() == {"label": -1, "img": 0, "one_hot": 0}
    assert data.classes == ["a", "b"]
    assert data.params is params
    assert "classes" not in vars(params)
    assert "classes" not in params.to_json()
    params.height = 8
    assert params.create().input_layer_specs()["img"].shape == (None, 8)


def test_length_of_names_an_input_or_a_target() -> None:
    class ByLabel(ShortData):
        targets = {"y": Spec(None, int)}  # noqa: RUF012
        length_of = "y"

    class Wrong(ShortData):
        length_of = "xs"

    class Without(ShortData):
        length_of = None

    sample = Sample(inputs={"x": [1, 2, 3]}, targets={"y": [1]})
    assert ShortData().create().element_length_fn(sample) == 3
    assert ByLabel().create().element_length_fn(sample) == 1
    with pytest.raises(TypeError, match=r"Wrong.length_of is 'xs', no key of the specs; did you mean x\?"):
        Wrong().create().check_hooks()
    with pytest.raises(NotImplementedError, match="need a length: declare length_of in Without"):
        Without().create().element_length_fn(sample)


def test_mistakes_in_data_are_named() -> None:
    class Empty(Data):
        pass

    with pytest.raises(NotImplementedError, match=r"Empty has no inputs: declare them, as in inputs = "):
        Empty().create().input_layer_specs()
    assert Empty().create().target_layer_specs() == {}
    with pytest.raises(TypeError, match=r"^ShortData has no constructor of its own and takes no arguments \(size\)"):
        ShortData().create(size=3)
    with pytest.raises(TypeError, match="Bad.inputs cannot be a field"):
        type("Bad", (Data,), {"__annotations__": {"inputs": "dict"}, "inputs": {}})


def test_random_numbers_of_a_processor_in_one_class_are_those_of_a_pair() -> None:
    made = [epoch(make_pipeline(rows(45), [noise], seed=5, num_processes=0)) for noise in (NoiseParams(), ShortNoise())]
    assert made[0] == made[1]


class Scaled(ShortRows):
    """Depends on the data, also in a worker."""

    data: Folder = shared()

    def __getitem__(self, index: int) -> Sample:
        image = np.full((index % 3 + 1, self.data.height), index, "uint8")
        return Sample(inputs={"img": image, "one_hot": np.eye(2)[index % 2]}, targets={"label": [index]})


class Labels(Processor):
    data: Folder = shared()

    def apply(self, sample: Sample) -> Sample:
        return sample.new_meta(self.data.classes[int(sample.targets["label"][0]) % 2])


@pytest.mark.parametrize("processes", [0, 2])
def test_workers_have_what_is_shared(processes: int, tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).touch()
    pre_proc = SequentialProcessorPipelineParams(processors=[Labels()])
    params = Folder(folder=str(tmp_path), height=2, pre_proc=pre_proc)
    setup = DataPipelineParams(mode=PipelineMode.EVALUATION, batch_size=2, num_processes=processes, worker_start_s=0.0)
    pipeline = params.create().create_pipeline(setup, Scaled(count=3))
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        found = [(batch.inputs["img"].shape, batch.meta) for batch in batches]
    assert found == [((2, 2, 2), ["a", "b"]), ((1, 3, 2), ["a"])]
    assert "classes" not in params.to_json()
