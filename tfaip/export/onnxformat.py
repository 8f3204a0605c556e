"""The format ONNX (`onnx/`), which many runtimes read."""

import importlib.util
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import keras
import numpy as np

from tfaip.backend.environment import default_variable
from tfaip.data.specs import export_name
from tfaip.errors import TfaipError, UsageError
from tfaip.export.savedmodelformat import quiet_tensorflow
from tfaip.model.graphbase import ExportGraph, ExportGraphs
from tfaip.util.manifest import ONNX_DIR as ONNX_DIR
from tfaip.util.reading import MIB, open_file
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict

SUFFIX = ".onnx"
# A file is one message of Protocol Buffers, which cannot be larger.
_ONNX_BYTES = 2048 * MIB
_NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
_SIGN_BIT = np.iinfo(np.int32).min


class OnnxExporter:
    """Format of ONNX files, one for each graph; each `write` converts the graphs again.

    Args:
        graphs: graphs to export.

    Raises:
        UsageError: if the backend is not TensorFlow, or tf2onnx is not installed.
    """

    def __init__(self, graphs: ExportGraphs) -> None:
        # The way from JAX (jax2onnx) needs some forty further packages. A model that was trained on
        # JAX is rebuilt on TensorFlow instead, which gives the same file.
        if keras.backend.backend() != "tensorflow":
            raise UsageError(
                f"ONNX files are written on the tensorflow backend, this is {keras.backend.backend()}: add them to the "
                "finished model with 'KERAS_BACKEND=tensorflow tfaip-export DIR --format onnx'"
            )
        if importlib.util.find_spec("tf2onnx") is None:
            raise UsageError("exporting ONNX needs tf2onnx, which is not installed: pip install tf2onnx onnxruntime")
        self._graphs = graphs

    def write(self, directory: Path) -> None:
        """Create `directory` and write the files, with the current weights.

        Raises:
            TfaipError: if a graph uses operations that ONNX does not have.
        """
        directory.mkdir()
        for name, graph in self._graphs.by_name.items():
            with quiet_tensorflow():
                model, missing = _convert(graph, self._graphs.inputs)
            if missing:
                raise TfaipError(
                    f"graph {name!r} cannot be written as ONNX, which has no counterpart of the TensorFlow operations "
                    f"{', '.join(missing)}"
                )
            (directory / f"{name}{SUFFIX}").write_bytes(model.SerializeToString())

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """Load one of the graphs as a function of batches, run by onnxruntime."""
        onnxruntime = import_onnxruntime()
        path = directory / f"{name}{SUFFIX}"
        try:
            open_file(path, _ONNX_BYTES).close()
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        except Exception as error:
            raise TfaipError(f"{path} cannot be loaded: {shorten_text(str(error), 150)}") from error
        outputs = [output.name for output in session.get_outputs()]

        def predict(inputs: TensorDict) -> dict[str, np.ndarray]:
            given = {export_name(name): value for name, value in inputs.items()}
            values = session.run(outputs, {i.name: np.asarray(given[i.name]) for i in session.get_inputs()})
            return dict(zip(outputs, values, strict=True))

        return predict


def import_onnxruntime() -> ModuleType:
    """Import onnxruntime without its telemetry, which would write into the home directory."""
    with default_variable(_NO_TELEMETRY, "1"):  # it is read during the import
        import onnxruntime
    return onnxruntime


def _convert(graph: ExportGraph, inputs: Mapping[str, keras.KerasTensor]) -> tuple[Any, list[str]]:
    """Return the ONNX model, and the operations in it that ONNX does not know."""
    import onnx
    import tensorflow as tf  # what is converted is a TensorFlow program
    import tf2onnx

    selected = graph.select(inputs)
    specs = {key: tf.TensorSpec(tensor.shape, tensor.dtype, name=export_name(key)) for key, tensor in selected.items()}
    log = logging.getLogger("tf2onnx")  # it logs operations that it cannot convert, and writes them nevertheless
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    function = tf.function(graph, autograph=False)
    try:
        model, _ = tf2onnx.convert.from_function(function, [specs], custom_rewriter=[_rewrite_unknown])
    finally:
        log.setLevel(level)
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    if missing := sorted({node.op_type for node in model.graph.node if node.op_type not in known}):
        return model, missing
    _store_constants(model.graph, function.get_concrete_function(specs).graph.captures)
    _name_dimensions(model.graph)
    return model, []


def _store_constants(graph: Any, captures: Iterable[tuple[Any, Any]]) -> None:
    """Store tensors that layers hold, such as the mean of `keras.layers.Normalization`: they became inputs."""
    import onnx

    constants = {placeholder.name: tensor for tensor, placeholder in captures}
    for tensor in [tensor for tensor in graph.input if tensor.name in constants]:
        array = constants[tensor.name].numpy()
        graph.initializer.append(onnx.numpy_helper.from_array(array, tensor.name))
        graph.input.remove(tensor)


def _name_dimensions(graph: Any) -> None:
    """Name the variable dimensions, which the converter numbers: `batch`, and `x_1` for the second one of `x`.

    Equal names mean equal sizes, which two tensors may not have.
    """
    for tensor in [*graph.input, *graph.output]:
        for axis, dimension in enumerate(tensor.type.tensor_type.shape.dim):
            if not dimension.HasField("dim_value"):
                dimension.dim_param = f"{tensor.name}_{axis}" if axis else "batch"


def _rewrite_unknown(graph: Any, operations: list[Any]) -> list[Any]:
    """Replace what ONNX lacks: `signbit(x)` of Keras' argmax by `1 / x < 0` (true for -0.0), `erfc(x)` of the exact
    `gelu` by `1 - erf(x)`."""
    for operation in operations:
        source = _sign_bit_of(operation)
        if source is not None:
            inverse = graph.make_node("Reciprocal", [source])
            zero = graph.make_const(f"{operation.name}_zero", np.zeros((), np.float32))
            negative = graph.make_node("Less", [inverse.output[0], zero.output[0]])
            graph.replace_all_inputs(operation.output[0], negative.output[0])
        elif operation.type == "Erfc":
            erf = graph.make_node("Erf", [operation.input[0]])
            one = graph.make_const(f"{operation.name}_one", np.ones((), np.float32))
            rest = graph.make_node("Sub", [one.output[0], erf.output[0]])
            graph.replace_all_inputs(operation.output[0], rest.output[0])
    return list(graph.get_nodes())


def _sign_bit_of(less: Any) -> str | None:
    """Return the name of `x` if the operation is `bitcast(x) & sign bit < 0`, else None."""
    masked = less.inputs[0] if less.type == "Less" and less.inputs else None
    if masked is None or masked.type != "BitwiseAnd":
        return None
    cast, mask = masked.inputs
    if cast.type != "Bitcast" or not mask.is_const() or mask.get_tensor_value() != _SIGN_BIT:
        return None
    return str(cast.input[0])
