"""Graphs as ONNX files, for the many runtimes that read these."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tfaip.errors import TfaipError, UsageError
from tfaip.model.exportgraph import ExportGraph, ExportGraphs
from tfaip.model.servedmodel import quiet_tensorflow
from tfaip.util.reading import MIB, open_file
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

ONNX_DIR = "onnx"
SUFFIX = ".onnx"
# What a file of this format can have: it is one message of Protocol Buffers.
_ONNX_BYTES = 2048 * MIB
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
_SIGN_BIT = np.iinfo(np.int32).min


class OnnxExporter:
    """Writes each graph as an ONNX file, as often as asked; the conversion is repeated each time.

    Args:
        graphs: what is exported.

    Raises:
        UsageError: the backend is not TensorFlow, or tf2onnx is not installed.
    """

    def __init__(self, graphs: ExportGraphs) -> None:
        if keras.backend.backend() != "tensorflow":
            raise UsageError(
                f"ONNX files are written on the tensorflow backend, this is {keras.backend.backend()}: add them to the "
                "finished model with 'KERAS_BACKEND=tensorflow tfaip-export DIR --format onnx'"
            )
        if importlib.util.find_spec("tf2onnx") is None:
            raise UsageError("exporting ONNX needs tf2onnx, which is not installed: pip install 'tfaip[onnx]'")
        self._graphs = graphs

    def write(self, directory: Path) -> None:
        """Write the files with the current weights into `directory` (created).

        Raises:
            TfaipError: a graph uses operations that ONNX has not.
        """
        directory.mkdir()
        for name, graph in self._graphs.by_name.items():
            with quiet_tensorflow():
                model, missing = _converted(graph, self._graphs.inputs)
            if missing:
                raise TfaipError(
                    f"graph {name!r} cannot be written as ONNX, which has no counterpart of the TensorFlow operations "
                    f"{', '.join(missing)}"
                )
            (directory / f"{name}{SUFFIX}").write_bytes(model.SerializeToString())

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """One of the graphs as a function of batches, run by onnxruntime.

        Raises:
            UsageError: onnxruntime is not installed.
            TfaipError: the file is damaged.
        """
        onnxruntime = import_onnxruntime()
        path = directory / f"{name}{SUFFIX}"
        try:
            open_file(path, _ONNX_BYTES).close()
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise TfaipError(f"{path} cannot be loaded: {shorten_text(str(error), 150)}") from error
        outputs = [output.name for output in session.get_outputs()]

        def predict(inputs: TensorDict) -> dict[str, np.ndarray]:
            values = session.run(outputs, {i.name: np.asarray(inputs[i.name]) for i in session.get_inputs()})
            return dict(zip(outputs, values, strict=True))

        return predict


def import_onnxruntime() -> ModuleType:
    """Import onnxruntime without its telemetry, which would write into the home and the temporary directory.

    Raises:
        UsageError: it is not installed.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise UsageError("running ONNX needs onnxruntime, which is not installed: pip install 'tfaip[onnx]'")
    given = os.environ.get(_NO_TELEMETRY)
    os.environ.setdefault(_NO_TELEMETRY, "1")  # it is read during the import
    try:
        import onnxruntime
    finally:
        if given is None:
            del os.environ[_NO_TELEMETRY]
    return onnxruntime


def _converted(graph: ExportGraph, inputs: Mapping[str, keras.KerasTensor]) -> tuple[Any, list[str]]:
    """The ONNX model, and the operations in it that ONNX does not know."""
    import onnx
    import tensorflow as tf
    import tf2onnx

    specs = {n: tf.TensorSpec(t.shape, t.dtype, name=n) for n, t in graph.select(inputs).items()}
    log = logging.getLogger("tf2onnx")  # it logs what it cannot convert, and goes on
    disabled, log.disabled = log.disabled, True
    try:
        model, _ = tf2onnx.convert.from_function(
            tf.function(graph, autograph=False), [specs], custom_rewriter=[_rewrite_sign_bits]
        )
    finally:
        log.disabled = disabled
    _name_dimensions(model.graph)
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    return model, sorted({node.op_type for node in model.graph.node if node.op_type not in known})


def _name_dimensions(graph: Any) -> None:
    """Call variable dimensions `batch` and `time`, where the converter has numbers.

    Equal names mean equal sizes. So `time` is the only variable dimension of all inputs; of several ones, and of
    outputs, whose length a layer may change, each has the name of its tensor too: `x_time`, `img_1`, `img_2`.
    """
    variable = [(tensor, _variable_axes(tensor)) for tensor in graph.input]
    is_alone = sum(len(axes) for _, axes in variable) == 1
    for tensor, axes in [*variable, *((tensor, _variable_axes(tensor)) for tensor in graph.output)]:
        dimensions = tensor.type.tensor_type.shape.dim
        if dimensions and not dimensions[0].HasField("dim_value"):
            dimensions[0].dim_param = "batch"
        for axis in axes:
            name = "time" if is_alone and tensor in graph.input else f"{tensor.name}_time"
            dimensions[axis].dim_param = name if len(axes) == 1 else f"{tensor.name}_{axis}"


def _variable_axes(tensor: Any) -> list[int]:
    """Return the axes of variable length after the first, which is the batch."""
    dimensions = tensor.type.tensor_type.shape.dim
    return [axis for axis in range(1, len(dimensions)) if not dimensions[axis].HasField("dim_value")]


def _rewrite_sign_bits(graph: Any, operations: list[Any]) -> list[Any]:
    """Say `signbit(x)`, which Keras' argmax uses and ONNX cannot, as `1 / x < 0`: true for -0.0 as well."""
    for less in operations:
        source = _sign_bit_of(less)
        if source is not None:
            inverse = graph.make_node("Reciprocal", [source])
            zero = graph.make_const(f"{less.name}_zero", np.zeros((), np.float32))
            negative = graph.make_node("Less", [inverse.output[0], zero.output[0]])
            graph.replace_all_inputs(less.output[0], negative.output[0])
    return list(graph.get_nodes())


def _sign_bit_of(less: Any) -> str | None:
    """`x` if this is `bitcast(x) & sign bit < 0`."""
    masked = less.inputs[0] if less.type == "Less" and less.inputs else None
    if masked is None or masked.type != "BitwiseAnd":
        return None
    cast, mask = masked.inputs
    if cast.type != "Bitcast" or not mask.is_const() or mask.get_tensor_value() != _SIGN_BIT:
        return None
    return str(cast.input[0])
