"""Data, generators and processors, as one class each or as pairs of classes."""

import math
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.data.support import IterableRowsParams, NoiseParams, RowData, epoch, make_pipeline, row, rows
from tfaip import Data, Generator, PipelineMode, Processor, Sample, Spec, shared
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataPipelineParams
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.specs import TensorSpec


def test_impossible_values_are_refused(subtests: pytest.Subtests) -> None:
    for values, message in [
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"on_error": "skip:many"}, "on_error is 'skip:many', expected raise, skip, or skip:N"),
        ({"bucket_boundaries": [3, 2]}, r"bucket_boundaries is \[3, 2\], expected rising lengths from 1"),
        ({"bucket_boundaries": [2], "bucket_batch_sizes": [4]}, r"\[4\], expected one number per bucket \(2, one"),
        ({"bucket_batch_sizes": [4, 2]}, r"bucket_batch_sizes is \[4, 2\], expected bucket_boundaries beside it"),
        ({"num_processes": 2**31}, "num_processes is 2147483648, expected a number from 0 to 1024"),
        ({"worker_timeout_s": math.nan}, r"worker_timeout_s is nan, expected a finite number in \(0, 2147483\]"),
    ]:
        with subtests.test(values=values), pytest.raises(ValueError, match=message):
            DataPipelineParams(**values)


class Odd(DataBase[DataBaseParams]):
    """Gives whatever the test puts there."""

    inputs: Any = {"x": TensorSpec([None])}
    padding: Any = {}

    def _input_layer_specs(self) -> Any:
        return self.inputs

    def _target_layer_specs(self) -> Any:
        return {"name": TensorSpec([1], "string")}

    def _meta_layer_specs(self) -> Any:
        return {"meta": TensorSpec([1], "string")}

    def _padding_values(self) -> Any:
        return self.padding


def odd(**values: Any) -> Odd:
    data = Odd(DataBaseParams())
    for name, value in values.items():
        setattr(data, name, value)
    return data


def test_paddings_and_what_is_wrong_with_them_or_specs() -> None:
    assert odd().padding_values() == {"x": 0, "name": ""}
    assert odd(padding={"x": 5, "meta": "ignored"}).padding_values() == {"x": 5, "name": ""}
    with pytest.raises(ValueError, match=r"Odd._input_layer_specs\(\)\['x'\] has shape \[\]"):
        odd(inputs={"x": TensorSpec([])}).input_layer_specs()
    with pytest.raises(ValueError, match=r"_padding_values names \['z'\], expected keys of the specs: \['name', 'x'\]"):
        odd(padding={"z": 1}).padding_values()


def test_other_params_replace_the_pipeline() -> None:
    data, generator, other = RowData().create(), IterableRowsParams(), IterableRowsParams(count=3)
    first = data.get_or_create_pipeline(DataPipelineParams(), generator)
    assert data.get_or_create_pipeline(DataPipelineParams(), generator) is first
    second = data.get_or_create_pipeline(DataPipelineParams(batch_size=3), generator)
    assert second.params.batch_size == 3
    assert data.get_or_create_pipeline(second.params, other).generator_params is other


@pytest.mark.backend
def test_specs_of_the_frameworks() -> None:
    import keras

    specs: dict[str, Any] = {
        "spec": keras.layers.InputSpec(shape=(None, 3), dtype="int32"),
        "tensor": keras.KerasTensor((28, 28), dtype="float32"),
    }
    expected = {"spec": TensorSpec((None, 3), "int32"), "tensor": TensorSpec((28, 28), "float32")}
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        specs |= {"tf": tf.TensorSpec([None, 1], tf.uint8), "text": tf.TensorSpec([1], "string")}
        expected |= {"tf": TensorSpec((None, 1), "uint8"), "text": TensorSpec((1,), "string")}
        with pytest.raises(TypeError, match="shape of known rank"):
            odd(inputs={"x": tf.TensorSpec(None, tf.int32)}).input_layer_specs()
    assert odd(inputs=specs).input_layer_specs() == expected
    with pytest.raises(TypeError, match="has dtype None"):
        odd(inputs={"x": keras.layers.InputSpec(shape=(1,))}).input_layer_specs()


class ShortRows(Generator):
    count: int = 10

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        return row(index)


class ShortNoise(Processor):
    high: int = 1000

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        noise = int(rng.integers(self.high))
        return sample.new_inputs({"x": sample.inputs["x"] + noise}).new_targets({"y": sample.targets["y"] + noise})


class Plain(Processor, modes="training"):
    pass


class Several(Processor, modes=["training", PipelineMode.EVALUATION]):
    pass


def test_modes_of_a_class() -> None:
    assert Plain().modes == {PipelineMode.TRAINING}
    assert Several().modes == {PipelineMode.TRAINING, PipelineMode.EVALUATION}
    assert Plain(modes=set()).modes == set()
    assert ShortNoise().modes == set(PipelineMode)
    Plain().modes.clear()
    assert Plain().modes == {PipelineMode.TRAINING}


def test_random_numbers_of_a_processor_in_one_class_are_those_of_a_pair() -> None:
    made = [epoch(make_pipeline(rows(45), [noise], seed=5, num_processes=0)) for noise in (NoiseParams(), ShortNoise())]
    assert made[0] == made[1]


class Folder(Data):
    """Classes are the files of a folder."""

    folder: str = ""
    height: int = 5
    inputs = {"img": Spec(None, "height", dtype="uint8"), "one_hot": Spec("num_classes")}
    targets, meta = {"label": Spec(1, int)}, {"name": Spec(1, str)}
    padding = {"label": -1, "name": "?"}

    @cached_property
    def classes(self) -> list[str]:
        return sorted(path.name for path in Path(self.folder).iterdir())

    @property
    def num_classes(self) -> int:
        return len(self.classes)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    for name in ("b", "a"):
        (tmp_path / name).touch()
    return Folder(folder=str(tmp_path), height=2)


def test_specs_name_fields_and_what_is_found_on_disk(folder: Folder) -> None:
    data = folder.create()
    assert data.input_layer_specs() == {"img": TensorSpec((None, 2), "uint8"), "one_hot": TensorSpec((2,), "float32")}
    assert data.target_layer_specs() == {"label": TensorSpec((1,), "int32")}
    assert data.padding_values() == {"label": -1, "img": 0, "one_hot": 0}
    assert data.classes == ["a", "b"]
    assert data.params is folder
    assert "classes" not in vars(folder)
    assert "classes" not in folder.to_json()
    folder.height = 8
    assert folder.create().input_layer_specs()["img"].shape == (None, 8)


class ByLabel(RowData):
    length_of = "y"


class WrongLength(RowData):
    length_of = "xs"


class Empty(Data):
    pass


def test_length_of_names_an_input_or_a_target() -> None:
    sample = Sample(inputs={"x": [1, 2, 3]}, targets={"y": [1]})
    assert [data.create().element_length_fn(sample) for data in (RowData(), ByLabel())] == [3, 1]


def bare() -> DataBase[DataBaseParams]:
    return DataBase(DataBaseParams())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bare().input_layer_specs(), "DataBase has no inputs: override _input_layer_specs and return"),
        (lambda: bare().element_length_fn(Sample()), r"override element_length_fn\(sample\) in DataBase"),
        (lambda: DataBaseParams().create(), "override cls"),
        (lambda: Empty().create().input_layer_specs(), "Empty has no inputs: .* declare inputs = "),
        (lambda: Empty().create().element_length_fn(Sample()), "override .* in Empty, or declare length_of in a su"),
        (lambda: WrongLength().create().check_hooks(), r"length_of is 'xs', expected one of \['x', 'y'\]"),
        (lambda: type("Bad", (Data,), {"__annotations__": {"inputs": "dict"}, "inputs": {}}), "inputs cannot be a f"),
        (lambda: type("Bad", (Processor,), {"generate": None}), "Bad.generate would never .*: derive from StreamProc"),
    ],
)
def test_mistakes_are_named(call: Any, message: str) -> None:
    with pytest.raises((NotImplementedError, TypeError, ValueError), match=message):
        call()
    assert Empty().create().target_layer_specs() == {}


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
def test_workers_have_what_is_shared(processes: int, folder: Folder) -> None:
    folder.pre_proc = SequentialProcessorPipelineParams(processors=[Labels()])
    setup = DataPipelineParams(mode=PipelineMode.EVALUATION, batch_size=2, num_processes=processes)
    pipeline = folder.create().create_pipeline(setup, Scaled(count=3))
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        found = [(batch.inputs["img"].shape, batch.meta) for batch in batches]
    assert found == [((2, 2, 2), ["a", "b"]), ((1, 3, 2), ["a"])]
    assert "classes" not in folder.to_json()
