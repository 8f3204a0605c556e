"""The first value of a batch that is not finite: an input, a weight, the output of a layer, a loss or a gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.backend.active import backend
from tfaip.backend.kerastools import watched_methods
from tfaip.data.pipeline.batching import Batch
from tfaip.model.lossterms import is_zero
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import all_layers_by_path, variables_by_path
from tfaip.util.text import shorten
from tfaip.util.typing import Tensor, TensorDict

_SAMPLES_NAMED = 3

# The optimizer computes the norm of all gradients in 32 bits.
_LARGEST = float(np.finfo(np.float32).max)


def first_not_finite(model: TrainingModel, batch: Batch, training: bool) -> str | None:
    """Compute a batch once more, operation by operation, and return what is first not finite.

    No variable changes. Random numbers (of dropout, of noise) are others than in the step that failed.

    Args:
        model: the model, compiled, with the weights that the batch was computed with.
        batch: one of those of the model.
        training: compute it as in the training, with its gradients; else as in the validation.

    Returns:
        A text such as `layer encoder/dense: 4 of 64 values of its output are nan, in samples 2, 3`; None: all values
        are finite. Samples count from 1. If the first value is infinite, which may be meant (a mask), the first that
        is no number follows.
    """
    search = _Search(model, batch)
    search.data()
    search.weights(training)
    search.end_if_found()
    if not search.has_ended:
        search.forward(training)
    if not search.has_ended and training:
        search.gradients()
    return search.result


class _Search:
    """Search in all that is computed of a batch, in the order of the computation.

    Args:
        model: the model.
        batch: the batch.
    """

    def __init__(self, model: TrainingModel, batch: Batch) -> None:
        self._first: str | None = None
        self._first_nan: str | None = None
        self._model = model
        self._batch = batch
        self._x: tuple[TensorDict, TensorDict] = (
            keras.tree.map_structure(ops.convert_to_tensor, batch.inputs),
            keras.tree.map_structure(ops.convert_to_tensor, batch.targets),
        )

    @property
    def has_ended(self) -> bool:
        """True if a value that is no number was found: what follows it says no more."""
        return self._first_nan is not None

    def end_if_found(self) -> None:
        """End the search if anything was found: inputs and weights are never meant to be infinite."""
        self._first_nan = self._first

    @property
    def result(self) -> str | None:
        """The first value that is not finite, in words; None: there is none."""
        if self._first is None or self._first_nan in (None, self._first):
            return self._first
        return f"{self._first}; the first nan: {self._first_nan}"

    def data(self) -> None:
        """Search inputs and targets."""
        for kind, arrays in (("input", self._batch.inputs), ("target", self._batch.targets)):
            for name, array in sorted(arrays.items()):
                self._check(f"{kind} {name}: ", array)

    def weights(self, training: bool) -> None:
        """Search the weights, and in a validation the state of layers for NaN: it may be infinite at first.

        In the training the batch itself may have made the state so.
        """
        for path, variable in variables_by_path(self._model.graph).items():
            array = _as_floats(variable)
            if array is not None and (variable.trainable or (not training and np.isnan(array).any())):
                self._check(f"weight {path}: ", array, has_samples=False)

    def forward(self, training: bool) -> None:
        """Search the outputs of layers as they are computed, then the losses."""
        # What is assigned to a variable, also to the accumulators of values, is forgotten.
        with keras.StatelessScope(self._state(), collect_losses=True):
            with self._watched():
                outputs = self._model(self._x, training=training)
            for name, (weight, values) in self._model.weighted_losses(self._x, outputs).items():
                if not (training and is_zero(weight)):  # else it is only logged, and may be infinite
                    self._check(f"loss {name}: ", values)
            total = self._model.compute_loss(self._x, None, outputs, training=training)
            self._check("the sum of all losses and penalties: ", total, has_samples=False)

    def gradients(self) -> None:
        """Search the gradients of all weights."""

        def loss() -> Any:
            return self._model.compute_loss(self._x, None, self._model(self._x, training=True), training=True)

        weights = self._model.trainable_variables
        gradients = backend.gradients(loss, weights, self._state())
        paths = {id(variable): path for path, variable in variables_by_path(self._model.graph).items()}
        largest = {}
        for weight, gradient in zip(weights, gradients, strict=True):
            if gradient is not None:
                path = paths.get(id(weight), weight.path)
                self._check(f"gradient of {path}: ", gradient, has_samples=False)
                largest[float(ops.max(ops.abs(gradient)))] = path
        if self._first is None and sum(float(ops.sum(ops.square(g))) for g in gradients if g is not None) > _LARGEST:
            most = max(largest)
            self._first = f"the norm of the gradients is inf; gradient of {largest[most]}: up to {most:.2g}"

    def _state(self) -> list[tuple[keras.Variable, Tensor]]:
        """Return all variables that are not trained, with their values."""
        model = self._model
        trained = {id(variable) for variable in model.trainable_variables}
        others = [variable for variable in model.variables if id(variable) not in trained]
        return [(variable, ops.convert_to_tensor(variable)) for variable in [*others, *model.metrics_variables]]

    @contextmanager
    def _watched(self) -> Iterator[None]:
        graph = self._model.graph
        names = {id(layer): f"layer {path}: " for path, layer in all_layers_by_path(graph).items()}
        layers = [graph, *all_layers_by_path(graph).values()]

        def watch(layer: keras.layers.Layer, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            name = names.get(id(layer), f"{type(graph).__name__}: ")
            self._check(name, (args, kwargs), " of its input")
            result = call(*args, **kwargs)
            self._check(name, result, " of its output")
            return result

        with watched_methods(layers, "call", watch):
            yield

    def _check(self, name: str, values: Any, what: str = "", has_samples: bool = True) -> None:
        """Look at nested values, until one is no number."""
        if self.has_ended:
            return
        for array in map(_as_floats, keras.tree.flatten(values)):
            if array is None:
                continue
            bad = ~np.isfinite(array)
            if bad.any():
                found = f"{name}{_counted(array, bad, what)}{self._samples(bad) if has_samples else ''}"
                self._first = self._first or found
                if np.isnan(array).any():
                    self._first_nan = found
                    return

    def _samples(self, bad: np.ndarray) -> str:
        """Return the samples with such a value, if the first dimension of an array is that of the batch."""
        if bad.ndim == 0 or len(bad) != self._batch.size:
            return ""
        rows = np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))
        texts = [self._sample(row) for row in rows[:_SAMPLES_NAMED]]
        more = f" and {len(rows) - len(texts)} more" if len(rows) > len(texts) else ""
        return f", in sample{'s' if len(rows) > 1 else ''} {', '.join(texts)}{more}"

    def _sample(self, row: int) -> str:
        meta = self._batch.meta[row]
        return str(row + 1) if meta is None else f"{row + 1} ({shorten(meta)})"


def _as_floats(value: Any) -> Any:
    """Return an array of numbers with a point; None if a value is something else, or has no numbers yet."""
    if not hasattr(value, "dtype") or "float" not in keras.backend.standardize_dtype(value.dtype):
        return None
    if isinstance(value, np.ndarray):
        return value
    if not backend.is_computed(value):
        return None
    array = ops.convert_to_numpy(value)
    return array.astype(np.float32) if array.dtype.kind != "f" else array  # NumPy does not know bfloat16


def _counted(array: np.ndarray, bad: np.ndarray, what: str) -> str:
    kinds: Sequence[str] = [kind for kind, is_kind in (("nan", np.isnan), ("inf", np.isinf)) if is_kind(array).any()]
    count = int(bad.sum())
    verb = "is" if count == 1 else "are"
    return f"{count} of {array.size} values{what} {verb} {' or '.join(kinds)}"
