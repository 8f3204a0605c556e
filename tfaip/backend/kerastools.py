"""Small functions around the public interface of Keras, the same on both backends."""

import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, partialmethod
from itertools import groupby, islice
from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.util.typing import Tensor


def _attributes_of_keras(layer: keras.layers.Layer) -> set[str]:
    layer.own = keras.layers.Layer(name="own")  # TensorFlow adds its attributes with the first one of the author
    return vars(layer).keys() - {"own"}


# What other attributes hold already: Keras does not list the attributes that the author of a layer has set.
KERAS_ATTRIBUTES = frozenset(
    _attributes_of_keras(keras.layers.Layer(name="empty")) | _attributes_of_keras(keras.Model(name="empty"))
)
_input = keras.Input((1,), name="input")
_FUNCTIONAL = type(keras.Model(_input, keras.layers.Identity(name="identity")(_input), name="empty"))
_creation = threading.RLock()


def keras_inputs(specs: Mapping[str, tuple[tuple[int | None, ...], str]]) -> dict[str, Any]:
    """Return one `keras.Input` (a KerasTensor with a batch dimension) for each key."""
    return {key: keras.Input(shape=shape, dtype=dtype, name=key) for key, (shape, dtype) in specs.items()}


def value_of(variable: keras.Variable) -> int:
    """Return the value of an integer variable, also of one that has a copy on each of several devices."""
    # Such a variable has no number: `int(variable)` and `convert_to_numpy` fail under MirroredStrategy, arithmetic
    # reads it.
    return int(variable + 0)


@contextmanager
def watched_methods(objects: Sequence[Any], name: str, watch: Callable[..., Any]) -> Iterator[None]:
    """Context in which something stands between Keras and a method that it finds by its name on layers or metrics.

    There is no public hook around the `call` of any layer. One that is called while something is compiled (the cell of
    a recurrent layer) is watched with the arguments that it has there.
    """
    # Past the attribute tracking of Keras. An object may have an attribute of this name already.
    before = [vars(watched).get(name) for watched in objects]
    try:
        for watched in objects:
            vars(watched)[name] = partial(watch, watched, getattr(watched, name))
        yield
    finally:
        for watched, own in zip(objects, before, strict=True):
            vars(watched).pop(name, None)
            if own is not None:
                vars(watched)[name] = own


# Layers


def is_functional(model: keras.Model) -> bool:
    """Return True if the layers of a model are those of a graph of calls, which have no attributes."""
    return isinstance(model, keras.Sequential) or type(model) is _FUNCTIONAL


def sublayers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return the layers that a layer holds itself, in the order in which it got their attributes."""
    if is_functional(layer):
        return list(layer.layers)
    found: dict[int, keras.layers.Layer] = {}
    left = [value for name, value in vars(layer).items() if name not in KERAS_ATTRIBUTES]
    while left:
        value = left.pop(0)
        if isinstance(value, keras.layers.Layer):
            found.setdefault(id(value), value)
        elif isinstance(value, dict):
            left[:0] = value.values()
        elif isinstance(value, list | tuple):
            left[:0] = value
    return list(found.values())


def layers_of(model: keras.Model) -> list[keras.layers.Layer]:
    """Return the layers on all levels; `Model.layers` has the uppermost ones."""
    found, left = {}, [model]
    while left:
        layer = left.pop(0)
        if id(layer) not in found:
            found[id(layer)] = layer
            left.extend(sublayers(layer))
    return list(found.values())


class _TrainingFlag(keras.layers.Layer):
    def call(self, training: bool | None = None) -> bool | None:
        return training


_training_flag = _TrainingFlag(name="training_flag")


@contextmanager
def own_training_flag() -> Iterator[None]:
    """Context of a call of a layer, after which `training` is as it was before for the calling layer.

    Keras passes `training` on to the layers that are called next, within the calling layer: after a
    `self.decoder.predict(...)` no dropout of the calling graph would act any more.
    """
    training = _training_flag()
    try:
        yield
    finally:
        _training_flag(training=training)


# Variables


class _OwnTypes(keras.layers.Layer):
    def call(self, function: Callable[[], Any]) -> Any:
        return function()


_own_types = _OwnTypes(name="own_types", autocast=False)


def without_autocast(function: Callable[[], Any]) -> Any:
    """Return what a function returns; variables have their own type in it, whatever the precision of the caller."""
    return _own_types(function=function)


@contextmanager
def _created_by(cls: type, create: Callable[..., None]) -> Iterator[None]:
    """Context in which `create` initialises the objects of a class of Keras; it gets the own `__init__` too."""
    with _creation:  # it is one method for all threads
        own = cls.__init__  # type: ignore[misc]
        setattr(cls, "__init__", partialmethod(create, own))  # noqa: B010 (no method may be assigned)
        try:
            yield
        finally:
            setattr(cls, "__init__", own)  # noqa: B010


class TooManyElements(BaseException):
    """Signal from the creation of a variable; Keras goes on after an `Exception` where it builds a layer."""


@contextmanager
def limited_variables(most: int) -> Iterator[None]:
    """Context in which variables are created."""
    elements = 0

    def create(variable: Any, own: Any, initializer: Any, shape: Any = None, *args: Any, **kwargs: Any) -> None:
        nonlocal elements
        sizes = shape if isinstance(shape, Iterable) else [shape]
        elements += math.prod(size or 0 for size in sizes)
        if elements > most:
            raise TooManyElements(elements)
        own(variable, initializer, shape, *args, **kwargs)

    with _created_by(keras.Variable, create):
        yield


# Metrics


def snake_case(name: str) -> str:
    """Return the name that Keras gives to the first object of a class."""
    words = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", words).lower()


@contextmanager
def metrics_named_by(counts: dict[str, int]) -> Iterator[dict[str, int]]:
    """Context in which metrics without a name are counted for one model, and not over the whole process as in Keras."""

    def create(metric: Any, own: Any, dtype: Any = None, name: str | None = None) -> None:
        if name is None:
            name = snake_case(type(metric).__name__)
            counts[name] = counts.get(name, 0) + 1
            if counts[name] > 1:
                name = f"{name}_{counts[name] - 1}"
        own(metric, dtype, name)

    with _created_by(keras.metrics.Metric, create):
        yield counts


# Masks: a layer gets the mask of a tensor and gives one to its outputs; functions have no public way to either


class _MaskOf(keras.layers.Layer):
    """Returns the mask that a layer has given to a tensor, or None."""

    def call(self, tensor: Tensor, mask: Tensor | None = None) -> Tensor | None:
        return mask

    def compute_mask(self, tensor: Tensor, previous_mask: Any) -> None:
        """Give no mask to the mask itself."""


class _WithMask(keras.layers.Layer):
    def call(self, tensor_and_mask: tuple[Tensor, Tensor]) -> Tensor:
        return tensor_and_mask[0]

    def compute_mask(self, tensor_and_mask: tuple[Tensor, Tensor], previous_mask: Any) -> Tensor:
        return tensor_and_mask[1]


mask_of = _MaskOf(name="mask_of", autocast=False)
_with_mask = _WithMask(name="with_mask", autocast=False)


def attach_mask(tensor: Tensor, mask: Tensor | None) -> None:
    """Give a mask to a tensor that has none."""
    if mask is not None:
        _with_mask((tensor, mask))


# Losses


class FunctionLoss(keras.losses.Loss):
    """The loss that `compile` makes of a function: it gives target and output the same rank."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self._function = function

    def call(self, y_true: Any, y_pred: Tensor) -> Tensor:
        return self._function(*_of_one_rank(y_true, y_pred))


def _of_one_rank(target: Tensor, output: Tensor) -> tuple[Tensor, Tensor]:
    """Return both with the same rank, where the last axis of one of them has one entry and the other lacks it."""
    missing = len(target.shape) - len(output.shape)
    if abs(missing) != 1 or (target if missing > 0 else output).shape[-1] != 1:
        return target, output
    if min(len(target.shape), len(output.shape)) != 1:
        return (ops.squeeze(target, -1), output) if missing > 0 else (target, ops.squeeze(output, -1))
    return (target, ops.expand_dims(output, -1)) if missing > 0 else (ops.expand_dims(target, -1), output)


@dataclass
class Execution:
    """Execution of the steps of a model in `fit`; JAX decides it before the first step, TensorFlow never.

    XLA compiles a step in a loop into other code than the same step alone, whose results may differ by rounding. So the
    decision depends on nothing but the operations of a step and the platform: a resume decides the same.

    Args:
        is_automatic: the number of steps per execution was not chosen by the user.
        loops: True: every step runs in a compiled loop, which a call may run several times; False: each step is a call;
            None: it is not decided.
    """

    is_automatic: bool = True
    loops: bool | None = None


MARK = "is_whole"
"""Key of what tells several devices whether each has the whole batch, in a third part of an element."""


def packed(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the parts of an element as the steps of Keras take them."""
    batch = (parts[0], parts[1])
    return (batch,) if len(parts) == 2 else (batch, parts[2][MARK])


# Calls with several batches

Shapes = list[tuple[tuple[int, ...], Any]]
"""Shape and type of each array of a batch."""
# Backends copy an array of NumPy unless its memory begins at a multiple of this.
_ALIGNMENT = 64


def capacity(shapes: Shapes, most: int, most_bytes: int) -> int:
    """Return how many batches are in a full call."""
    size = sum(math.prod(shape) * dtype.itemsize for shape, dtype in shapes)
    return max(1, min(most, most_bytes // max(size, 1)))


def of_one_shape(
    batches: Iterable[Any], shapes_of: Callable[[Any], Shapes], most: int, most_bytes: int
) -> Iterator[list[Any]]:
    """Group batches that follow each other, have the same shapes, and fit into one call."""
    for shapes, group in groupby(batches, shapes_of):
        while taken := list(islice(group, capacity(shapes, most, most_bytes))):
            yield taken


def stacked(arrays: Sequence[np.ndarray], room: int) -> np.ndarray:
    """Return arrays of one shape as one new array with room for more, which a step may read in place later."""
    size = room * arrays[0].nbytes
    memory = np.empty(size + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    whole = memory[start : start + size].view(arrays[0].dtype).reshape(room, *arrays[0].shape)
    np.stack(arrays, out=whole[: len(arrays)])
    return whole
