"""What `fit` and `evaluate` read: every batch, in order, with its position, on both backends."""

from __future__ import annotations

import contextlib
import gc
import weakref
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
from tfaip.trainer.datasets import Feeder

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
        self.batches = batches
        self.error = error
        self.read = 0
        self.closed = False

    @contextlib.contextmanager
    def open(self) -> Iterator[Iterator[Item]]:
        try:
            yield self._items()
        finally:
            self.closed = True

    def _items(self) -> Iterator[Item]:
        for number, made in enumerate(self.batches):
            self.read += 1
            yield made, Position(0, number + 1, number + 1)
        if self.error is not None:
            raise self.error


def arrays(element: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs and targets of one element of the data set, as NumPy arrays."""
    ((inputs, targets),) = element
    return {k: np.asarray(v) for k, v in inputs.items()}, {k: np.asarray(v) for k, v in targets.items()}


def read(source: AbstractContextManager[Iterator[Item]], data: DataBase[Any] | None = None, **params: Any) -> list[Any]:
    with Feeder(data or Data(ROW, NUMBER)).feed(source, **params) as feed:
        return [arrays(element) for element in feed.dataset]


@pytest.fixture(params=["inline", "ahead"])
def _on_a_device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On JAX the tests run once more as on a device that is no CPU, where a thread reads ahead."""
    if request.param == "ahead":
        if BACKEND != "jax":
            pytest.skip("tf.data has threads of its own")
        import jax

        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


@pytest.mark.parametrize("count", [1, CHUNK_BATCHES, 3 * CHUNK_BATCHES - 1])
def test_every_batch_once_and_in_order(count: int) -> None:
    source = Source([batch(number) for number in range(count)])
    elements = read(source.open())
    assert [inputs["x"][0, 0] for inputs, _ in elements] == list(range(count))
    assert [targets["y"][1, 0] for _, targets in elements] == list(range(count))
    assert source.closed


@pytest.mark.backend
def test_types_and_shapes_are_those_of_the_batches() -> None:
    ((inputs, targets),) = read(Source([batch(7, size=4, length=5)]).open())
    assert (inputs["x"].dtype, inputs["x"].shape) == (np.float32, (4, 5))
    assert (targets["y"].dtype, targets["y"].shape) == (np.int32, (4, 1))


def test_batches_of_different_shapes_are_not_mixed() -> None:
    shapes = [(2, 3), (2, 3), (2, 5), (1, 5), (2, 3), (2, 1)]
    batches = [batch(number, size, length) for number, (size, length) in enumerate(shapes)]
    elements = read(Source(batches).open())
    assert [inputs["x"].shape for inputs, _ in elements] == shapes
    assert [inputs["x"].max() for inputs, _ in elements] == list(range(6))


@pytest.mark.backend
def test_position_is_that_of_the_batches_trained_not_of_those_read() -> None:
    source = Source([batch(number) for number in range(100)])
    with Feeder(Data(ROW, NUMBER)).feed(source.open()) as feed:
        iterator = iter(feed.dataset)
        for _ in range(3):
            next(iterator)
        assert source.read >= 3
        assert feed.position_after(1) == Position(0, 1, 1)
        assert feed.position_after(3) == Position(0, 3, 3)
        assert feed.position_after(3) == Position(0, 3, 3)  # asked twice
        for _ in range(13):
            next(iterator)
        assert feed.position_after(16) == Position(0, 16, 16)


def test_no_targets() -> None:
    elements = read(Source([Batch({"x": np.ones((2, 1), np.float32)}, {}, [None] * 2)] * 3).open(), Data(ROW, {}))
    assert [(inputs["x"].shape, targets) for inputs, targets in elements] == [((2, 1), {})] * 3


def test_text_reaches_tensorflow() -> None:
    if BACKEND != "tensorflow":
        pytest.skip("JAX has no tensors of text")
    specs = {"text": TensorSpec((None,), "string")}
    words = [np.array([["a", "bc"]], object), np.array([["ä", ""]], object), np.array([["x"]], object)]
    elements = read(Source([Batch({"text": array}, {}, [None]) for array in words]).open(), Data(specs, {}))
    decoded = [[value.decode() for value in inputs["text"][0]] for inputs, _ in elements]
    assert decoded == [["a", "bc"], ["ä", ""], ["x"]]


def test_closing_early_closes_the_source() -> None:
    source = Source([batch(number) for number in range(1000)])
    with Feeder(Data(ROW, NUMBER)).feed(source.open()) as feed:
        next(iter(feed.dataset))
    assert source.closed
    assert source.read < 1000


def test_one_feed_after_the_other() -> None:
    feeder = Feeder(Data(ROW, NUMBER))
    sources = [Source([batch(number), batch(number)]) for number in range(4)]
    seen = []
    with feeder.feed(sources[0].open()) as feed:
        training = iter(feed.dataset)
        seen.append(arrays(next(training))[0]["x"][0, 0])
        first = feed.dataset
        with feeder.feed(sources[1].open()):
            pass  # nobody reads it
        with feeder.feed(sources[2].open()) as validation:
            seen += [arrays(element)[0]["x"][0, 0] for element in validation.dataset]
        seen.append(arrays(next(training))[0]["x"][0, 0])
    with feeder.feed(sources[3].open()) as feed:
        seen += [arrays(element)[0]["x"][0, 0] for element in feed.dataset]
        # TensorFlow traces it once.
        assert (feed.dataset is first) is (BACKEND == "tensorflow")
    assert seen == [0, 2, 2, 0, 3, 3]


def test_the_batches_of_a_feed_are_not_kept() -> None:
    feeder = Feeder(Data(ROW, NUMBER))
    source = Source([batch(0)])
    with feeder.feed(source.open()) as feed:
        assert len(list(feed.dataset)) == 1
    kept = weakref.ref(source)
    del source, feed
    gc.collect()
    assert kept() is None


class PipelineError(Exception):
    pass


def test_an_error_of_the_pipeline_is_raised_as_itself() -> None:
    error = PipelineError("sample 4 is broken")
    source = Source([batch(number) for number in range(4)], error)
    with pytest.raises(PipelineError, match="^sample 4 is broken$") as caught:
        read(source.open())
    assert caught.value is error
    assert source.closed


def test_an_error_of_the_reader_stays_the_readers() -> None:
    source = Source([batch(number) for number in range(4)])
    with pytest.raises(ZeroDivisionError):
        fail_while_reading(source)
    assert source.closed


def fail_while_reading(source: Source) -> None:
    with Feeder(Data(ROW, NUMBER)).feed(source.open()) as feed:
        next(iter(feed.dataset))
        raise ZeroDivisionError


def test_what_ends_the_process_goes_through() -> None:
    source = Source([batch(0)], KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        read(source.open())


@pytest.mark.backend
def test_jax_gets_few_shapes() -> None:
    lengths = [1, 4, 3, 5, 8, 9, 4]
    elements = read(Source([batch(9, length=length) for length in lengths]).open(), lengths=[4, 8])
    shown = [inputs["x"].shape[1] for inputs, _ in elements]
    assert shown == ([4, 4, 4, 8, 8, 9, 4] if BACKEND == "jax" else lengths)
    assert {targets["y"].shape for _, targets in elements} == {(2, 1)}  # not a variable dimension
    if BACKEND == "jax":
        assert elements[0][0]["x"].tolist() == [[9, -1, -1, -1]] * 2


@pytest.mark.backend
def test_batches_are_on_the_device_before_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    if BACKEND != "jax":
        pytest.skip("TensorFlow has its own way")
    import jax

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with Feeder(Data(ROW, NUMBER)).feed(Source([batch(0)]).open()) as feed:
        (((inputs, targets),),) = feed.dataset
    assert isinstance(inputs["x"], jax.Array)
    assert isinstance(targets["y"], jax.Array)


@pytest.mark.backend
def test_many_shapes_are_told_once_where_each_is_compiled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    feeder = Feeder(Data(ROW, NUMBER))
    for lengths in ([3, 4, 3, 5], [6, 7]):  # the number of samples does not count
        source = Source([batch(1, size=1 + length % 2, length=length) for length in lengths])
        with feeder.feed(source.open()) as feed:
            list(feed.dataset)
        assert len(caplog.messages) == (BACKEND == "jax" and 6 in lengths)
    assert all("had 4 shapes so far" in message for message in caplog.messages)
