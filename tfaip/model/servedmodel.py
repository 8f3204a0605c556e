"""SavedModels of any origin (this toolkit, Keras 2 and 3, plain TensorFlow), called through plain TensorFlow."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.data.specs import TensorSpec
from tfaip.errors import TfaipError, UsageError
from tfaip.model.kerascall import named_as_called, signature_endpoint
from tfaip.util.backend import quiet_stderr
from tfaip.util.reading import MIB, open_file, require_regular_files
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

SAVED_MODEL_FILE = "saved_model.pb"
# What the file can have: it is one message of Protocol Buffers.
_PROGRAM_BYTES = 2048 * MIB
_KERAS_2_ENDPOINT = "serving_default"
_DEFAULT_ENDPOINTS = ("serve", _KERAS_2_ENDPOINT)
_HIDDEN_ENDPOINTS = {_KERAS_2_ENDPOINT, "__saved_model_init_op"}


def is_saved_model(path: Path) -> bool:
    """Whether a directory holds a SavedModel."""
    return (path / SAVED_MODEL_FILE).is_file()


class ServedModel:
    """A SavedModel as a function of batches, called as the prediction graph is. It is a program: load what you trust.

    A model of Keras 2 has the inputs and outputs that it was called with, not those of its layers.

    Args:
        directory: the SavedModel.
        endpoint: name of one of its signatures; None: `serve`, else `serving_default`, else the only one.

    Raises:
        UsageError: TensorFlow is not installed, or there is no SavedModel.
        TfaipError: it is damaged, or has no such endpoint.
    """

    def __init__(self, directory: str | Path, endpoint: str | None = None) -> None:
        directory = Path(directory)
        if not is_saved_model(directory):
            raise UsageError(f"no SavedModel at {directory}: it has no {SAVED_MODEL_FILE}")
        if importlib.util.find_spec("tensorflow") is None:
            raise UsageError(f"using the SavedModel {directory} needs tensorflow, which is not installed: install it")
        with quiet_tensorflow():
            import tensorflow as tf

            try:
                require_regular_files(directory)
                open_file(directory / SAVED_MODEL_FILE, _PROGRAM_BYTES).close()
                self._loaded = tf.saved_model.load(str(directory))  # owns the variables that the functions use
            except Exception as error:  # of every kind, as deep as the damage lies
                raise TfaipError(
                    f"the SavedModel {directory} cannot be loaded: {shorten_text(str(error), 150)}"
                ) from error
        self._convert = tf.convert_to_tensor
        self._directory = directory
        self.endpoints: list[str] = sorted(set(self._loaded.signatures) - _HIDDEN_ENDPOINTS)
        chosen = self._choose(endpoint)
        signature = self._loaded.signatures[chosen]
        self._endpoint = signature_endpoint(signature)
        if endpoint is None and chosen == _KERAS_2_ENDPOINT:
            self._endpoint = named_as_called(self._loaded, signature)
        self._types = {name: spec.dtype for name, spec in self._endpoint.inputs.items()}

    def _choose(self, endpoint: str | None) -> str:
        signatures = set(self._loaded.signatures)
        candidates = _DEFAULT_ENDPOINTS if endpoint is None else (endpoint,)
        found = [name for name in candidates if name in signatures]
        if endpoint is None and not found and len(self.endpoints) == 1:
            found = self.endpoints
        if not found:
            wanted = "several or no endpoints, name one" if endpoint is None else f"no endpoint {endpoint!r}"
            raise TfaipError(f"the SavedModel {self._directory} has {wanted}; it has {sorted(signatures)}")
        return found[0]

    @property
    def inputs(self) -> dict[str, TensorSpec]:
        """The inputs by name, each with its batch dimension."""
        return {name: _spec(spec) for name, spec in self._endpoint.inputs.items()}

    @property
    def outputs(self) -> dict[str, TensorSpec]:
        """The outputs by name, each with its batch dimension."""
        return {name: _spec(spec) for name, spec in self._endpoint.outputs.items()}

    def require_inputs(self, specs: Mapping[str, TensorSpec]) -> None:
        """Check that samples of these specs (without batch dimension) can be fed; further ones are not.

        Raises:
            UsageError: an input is missing, or has another shape or type.
        """
        for name, wanted in self.inputs.items():
            if name not in specs or not _fits(specs[name], wanted):
                raise UsageError(
                    f"the SavedModel {self._directory} does not fit the data: it wants {_text(self.inputs)}, with the "
                    f"batch dimension first; the data give {_text(specs)}, without it; {name!r} differs"
                )

    def __call__(self, inputs: TensorDict) -> dict[str, np.ndarray]:
        """Outputs of a batch by name.

        Raises:
            UsageError: an input is missing.
        """
        if not isinstance(inputs, Mapping):
            raise TypeError(f"a SavedModel takes a dict of inputs {sorted(self._types)}, got {type(inputs).__name__}")
        missing = sorted(set(self._types) - set(inputs))
        if missing:
            raise UsageError(f"the SavedModel {self._directory} wants {sorted(self._types)}, not given: {missing}")
        outputs = self._endpoint.call(
            {n: self._convert(np.asarray(inputs[n]), dtype) for n, dtype in self._types.items()}
        )
        return {name: value.numpy() for name, value in outputs.items()}


def _spec(spec: Any) -> TensorSpec:
    # Of unknown rank: anything fits, which no shape of ours can say.
    return TensorSpec(tuple(spec.shape) if spec.shape.rank is not None else (), spec.dtype.name)


def _fits(sample: TensorSpec, batch: TensorSpec) -> bool:
    if sample.dtype != batch.dtype and not np.can_cast(sample.numpy_dtype, batch.numpy_dtype, "same_kind"):
        return False
    return not batch.shape or (
        len(sample.shape) + 1 == len(batch.shape)
        and all(a is None or b is None or a == b for a, b in zip(sample.shape, batch.shape[1:], strict=True))
    )


def _text(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{name}: {spec.dtype}{[*spec.shape]}" for name, spec in sorted(specs.items()))


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """TensorFlow reports assets, fingerprints and gradients that it drops, Keras prints endpoints: not our lines."""
    logs = [logging.getLogger("tensorflow"), logging.getLogger("absl")]
    levels = [log.level for log in logs]
    # `tf.saved_model.save` logs by `logging.info`, which adds a handler if there is none: a program without a set-up of
    # its own would have one from then on.
    handlers = logging.root.handlers[:]
    for log in logs:
        log.setLevel(logging.ERROR)
    try:
        with quiet_stderr(), contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.root.handlers[:] = handlers
        for log, level in zip(logs, levels, strict=True):
            log.setLevel(level)
