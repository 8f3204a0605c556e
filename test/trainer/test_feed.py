"""What `fit` and `evaluate` read: every batch, in order, with its position, on both backends."""

import contextlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import keras
import numpy as np
import pytest

from tfaip.backend.tensorflowsteps import CHUNK_BATCHES
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.sampler import Position
from tfaip.data.specs import TensorSpec
from tfaip.trainer.datasets import Feed

pytestmark = pytest.mark.usefixtures("_on_a_device")

Item = tuple[Batch, Position | None]
BACKEND = keras.backend.backend()
ROW = {"x": TensorSpec((None,), "float32")}
NUMBER = {"y": TensorSpec((1,), "int32")}


class Data(DataBase[DataBaseParams]):
    """Data of given specs."""

    def __init__(self, inputs: dict[str, TensorSpec], targets: dict[str, TensorSpec]) -> None:
        super().__init__(DataBaseParams())
        self._given = (inputs, targets)

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return self._given[0]

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return self._given[1]

    def _padding_values(self) -> dict[str, Any]:
        return {"x": -1} if "x" in self._given[0] else {}


def batch(number: int, size: int = 2, length: int = 3) -> Batch:
    """A batch that is full of its number."""
    x = np.full((size, length), number, np.float32)
    return Batch({"x": x}, {"y": np.full((size, 1), number, np.int32)}, [None] * size)


class Source:
    """Batches with positions, one after the other; knows how many were read and whether it was closed."""

    def __init__(self, batches: list[Batch], error: BaseException | None = None) -> None:
        self.batches, self.error, self.read, self.closed = batches, error, 0, False

    @contextlib.contextmanager
    def open(self) -> Iterator[Iterator[Item]]:
        try:
            yield self._items()
        finally:
            self.closed = True

    def _items(self) -> Iterator[Item]:
        for number, made in enumerate(self.batches, 1):
            self.read = number
            yield made, Position(0, number, number)
        if self.error is not None:
            raise self.error


def arrays(element: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and targets of one element of the data set, as NumPy arrays."""
    ((inputs, targets),) = element
    if BACKEND == "jax":
        import jax

        assert isinstance(inputs["x"], jax.Array) is (jax.default_backend() == "gpu")
    return {k: np.asarray(v) for k, v in inputs.items()}, {k: np.asarray(v) for k, v in targets.items()}


def elements_of(dataset: Any) -> Iterator[Any]:
    """The batches of a data set; on TensorFlow they are stacked in chunks."""
    if BACKEND == "jax":
        yield from dataset
        return
    for ((inputs, targets),) in dataset.chunks:
        for number in range(len(next(iter(inputs.values())))):
            yield (({k: v[number] for k, v in inputs.items()}, {k: v[number] for k, v in targets.items()}),)


def read(source: AbstractContextManager[Iterator[Item]], data: DataBase[Any] | None = None, **params: Any) -> list[Any]:
    with Feed(data or Data(ROW, NUMBER), source, **params) as feed:
        return [arrays(element) for element in elements_of(feed.dataset)]


@pytest.fixture(params=["inline", "ahead"])
def _on_a_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On JAX the tests run once more as on a device that is no CPU, where a thread reads ahead."""
    if request.param == "ahead":
        if BACKEND != "jax":
            pytest.skip("a thread always reads ahead")
        import jax

        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


@pytest.mark.backend
@pytest.mark.parametrize("count", [1, 3 * CHUNK_BATCHES - 1])
def test_every_batch_once_and_in_order_with_its_types_and_shape(count: int) -> None:
    shapes = [(4, 3), (4, 3), (2, 3), (2, 5), (1, 5), (2, 3), (2, 1)]
    source = Source([batch(number, *shapes[number % 7]) for number in range(count)])
    elements = read(source.open())
    assert source.closed
    assert [inputs["x"].max() for inputs, _ in elements] == list(range(count))
    for number, (inputs, targets) in enumerate(elements):
        rows, length = shapes[number % 7]
        assert (inputs["x"].dtype, inputs["x"].shape, inputs["x"].min()) == (np.float32, (rows, length), number)
        assert (targets["y"].dtype, targets["y"].tolist()) == (np.int32, [[number]] * rows)
    without = read(Source([Batch({"x": np.ones((2, 1), np.float32)}, {}, [None] * 2)] * 3).open(), Data(ROW, {}))
    assert [(inputs["x"].shape, targets) for inputs, targets in without] == [((2, 1), {})] * 3


@pytest.mark.backend
def test_position_is_that_of_the_batches_trained_not_of_those_read() -> None:
    source, seen = Source([batch(number) for number in range(1000)]), []
    with Feed(Data(ROW, NUMBER), source.open()) as feed:
        iterator = elements_of(feed.dataset)
        for trained in (3, 16):
            while len(seen) < trained:
                seen.append(next(iterator))
            assert source.read >= trained
            for count in (trained, trained):  # asked twice
                assert feed.position_after(count) == Position(0, count, count)
    # Closed early.
    assert source.closed
    assert source.read < 1000


@pytest.mark.parametrize("error", [OSError("sample 4 is broken"), KeyboardInterrupt()])
def test_an_error_of_the_pipeline_is_raised_as_itself(error: BaseException) -> None:
    source = Source([batch(number) for number in range(4)], error)
    with pytest.raises(type(error)) as caught:
        read(source.open())
    assert caught.value is error
    assert source.closed


def test_text_reaches_tensorflow() -> None:
    if BACKEND != "tensorflow":
        pytest.skip("JAX has no tensors of text")
    specs = {"text": TensorSpec((None,), "string")}
    words = [np.array([["a", "bc"]], object), np.array([["ä", ""]], object), np.array([["x"]], object)]
    elements = read(Source([Batch({"text": array}, {}, [None]) for array in words]).open(), Data(specs, {}))
    decoded = [[value.decode() for value in inputs["text"][0]] for inputs, _ in elements]
    assert decoded == [["a", "bc"], ["ä", ""], ["x"]]
