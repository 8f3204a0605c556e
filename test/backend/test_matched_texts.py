"""Texts of other libraries that are matched, since what they describe has no type and no code."""

import warnings
from typing import Any

import keras
import numpy as np
import pytest

from test.backend.support import Net, fitted
from tfaip.scripts.common.command import message_of

pytestmark = pytest.mark.backend


def test_the_warning_of_data_that_end_is_known_by_its_text() -> None:
    model = fitted(Net())

    def batches() -> Any:
        for _ in range(2):
            yield np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(batches(), steps_per_epoch=3, verbose=0)
    # trainer/validation.py
    assert any(str(warning.message).startswith("Your input ran out of data") for warning in caught)


def test_the_warning_of_a_failed_build_is_known_by_its_text() -> None:
    class Broken(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.inner = keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            raise ZeroDivisionError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(ZeroDivisionError):
            Broken()(keras.Input((1,)))
    # model/trainingmodel.py
    assert any("looks like it has unbuilt state" in str(warning.message) for warning in caught)


class Failing(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        raise ValueError("the reason")


@pytest.mark.parametrize("x", [np.ones((1, 1), np.float32), keras.Input((1,))], ids=["array", "symbolic"])
def test_the_message_of_an_error_in_a_layer_is_found_in_its_page(x: Any) -> None:
    with pytest.raises(ValueError, match="the reason") as caught:
        Failing()(x)
    assert len(str(caught.value)) > len("the reason")
    # util/logging.py
    assert message_of(caught.value) == "the reason"


def test_the_reason_why_a_model_cannot_be_loaded_comes_last() -> None:
    config = {"module": "keras.layers", "class_name": "Dense", "config": {"units": -1}, "registered_name": None}
    with pytest.raises(Exception, match="could not be deserialized") as caught:
        keras.saving.deserialize_keras_object(config)
    # export/formats.py
    assert "units" in str(caught.value).rpartition("Exception encountered: ")[2]
