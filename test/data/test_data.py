from __future__ import annotations

from typing import Any

import pytest

from test.data.support import IterableRowsParams, RowData, RowDataParams
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataPipelineParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec


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
    with pytest.raises(
        ValueError, match=r"Odd._padding_values names \['z'\], expected keys of the specs: \['name', 'x'\]"
    ):
        odd(padding={"z": 1}).padding_values()


def test_base_class_says_what_to_override() -> None:
    data: DataBase[DataBaseParams] = DataBase(DataBaseParams())
    with pytest.raises(NotImplementedError, match="override _input_layer_specs in DataBase"):
        data.input_layer_specs()
    with pytest.raises(NotImplementedError, match="override _target_layer_specs in DataBase .* no targets"):
        data.target_layer_specs()
    with pytest.raises(NotImplementedError, match=r"override element_length_fn\(sample\) in DataBase"):
        data.element_length_fn(Sample())


def test_input_layers_have_a_batch_dimension() -> None:
    layers = odd(inputs={"x": TensorSpec([None, 3]), "n": TensorSpec([1], "int32")}).create_input_layers()
    assert {key: (tuple(layer.shape), layer.dtype, layer.name) for key, layer in layers.items()} == {
        "x": ((None, None, 3), "float32", "x"),
        "n": ((None, 1), "int32", "n"),
    }


def test_other_params_replace_the_pipeline() -> None:
    data = RowData(RowDataParams())
    generator = IterableRowsParams()
    params = DataPipelineParams()
    first = data.get_or_create_pipeline(params, generator)
    second = data.get_or_create_pipeline(DataPipelineParams(batch_size=3), generator)
    assert second is not first
    assert second.params.batch_size == 3
    other = IterableRowsParams(count=3)
    third = data.get_or_create_pipeline(second.params, other)
    assert third.generator_params is other


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
