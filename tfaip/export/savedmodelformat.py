"""The format SavedModel (`serve/`), for TensorFlow Serving and other runtimes."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np

from tfaip.backend.environment import quiet_stderr
from tfaip.backend.keras_private import archive_variables
from tfaip.data.specs import TensorSpec, export_name
from tfaip.errors import TfaipError, UsageError
from tfaip.export.savedmodelvariables import VARIABLES_DIR
from tfaip.model.graphbase import ExportGraphs
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import HOST_ALIGNMENT
from tfaip.util.manifest import SERVE_DIR as SERVE_DIR
from tfaip.util.reading import MIB, open_file, require_regular_files
from tfaip.util.text import shorten_text
from tfaip.util.typing import TensorDict


class ServingExporter:
    """Format of a SavedModel, with a signature for each graph.

    The graphs are traced by the first `write` (0.3 s for a tiny model, 2 s on JAX); later ones take 0.1 s.

    Args:
        graphs: graphs to export; the first one is also the default signature.

    Raises:
        UsageError: if TensorFlow, which writes SavedModels on every backend, is not installed.
    """

    def __init__(self, graphs: ExportGraphs) -> None:
        if importlib.util.find_spec("tensorflow") is None:
            raise UsageError("exporting a SavedModel needs tensorflow, which is not installed: install it")
        self._graphs = graphs
        # Without a name in the specs, TensorFlow calls the inputs `inputs`, `inputs_1` ..., in an order of its own.
        self._specs = {
            name: keras.InputSpec(shape=tensor.shape, dtype=tensor.dtype, name=export_name(name))
            for name, tensor in graphs.inputs.items()
        }
        self._archive: Any = None
        self._template: SavedModelTemplate | None = None

    def write(self, directory: Path) -> None:
        """Create `directory` and write the SavedModel, with the current weights.

        Raises:
            TfaipError: if TensorFlow cannot write it, for example because the disk is full.
        """
        with quiet_tensorflow():
            is_first = self._archive is None
            if is_first:
                self._archive = self._trace()
            elif keras.backend.backend() != "tensorflow":
                for copied, original in self._copies():  # on TensorFlow the archive has the variables themselves
                    copied.assign(keras.ops.convert_to_numpy(original))
            with _writing(directory):
                self._archive.write_out(str(directory), verbose=False)
            if is_first:
                self._template = SavedModelTemplate.of(directory, self._keys())

    @property
    def writes_values(self) -> bool:
        """True if `write_values` can be called; before the first `write` it cannot."""
        return self._template is not None

    def write_values(self, directory: Path, weights: Mapping[str, np.ndarray]) -> None:
        """Create `directory` as `write` does, with these weights by path; it does not need the model."""
        assert self._template is not None  # noqa: S101 (the caller has asked)
        self._template.write(directory, weights)

    def _keys(self) -> dict[str, str]:
        """Return the path of the weight of each variable by its key in the SavedModel."""
        by_path = variables_by_path(self._graphs.root)
        paths = {id(variable): path for path, variable in by_path.items()}
        if keras.backend.backend() == "tensorflow":
            paths |= {id(variable.value): path for path, variable in by_path.items()}
        else:
            paths = {id(copied): paths[id(original)] for copied, original in self._copies() if id(original) in paths}
        keys = {}
        for name, members in archive_variables(self._archive).items():
            for position, variable in enumerate(members):
                if id(variable) in paths:
                    keys[_KEY.format(name, position)] = paths[id(variable)]
        return keys

    @staticmethod
    def load(directory: Path, name: str) -> Callable[[TensorDict], dict[str, np.ndarray]]:
        """Load one of the graphs as a function of batches."""
        return ServedModel(directory, name)

    def _copies(self) -> Iterator[tuple[Any, keras.Variable]]:
        """Return the variables of the archive, each with the one that it is a copy of; not on TensorFlow."""
        originals = [*self._graphs.root.trainable_variables, *self._graphs.root.non_trainable_variables]
        return zip(self._archive.variables, originals, strict=True)

    def _trace(self) -> Any:
        archive = keras.export.ExportArchive()
        archive.track(self._graphs.root)
        for name, graph in self._graphs.by_name.items():
            archive.add_endpoint(name, _with_inputs_only(graph), input_signature=[graph.select(self._specs)])
        return archive


def tensorflow_is_imported() -> bool:
    """Return True if a SavedModel can be written without the seconds that the import of TensorFlow takes."""
    return "tensorflow" in sys.modules


def _with_inputs_only(function: Callable[[TensorDict], TensorDict]) -> Callable[[TensorDict], TensorDict]:
    # The name of the argument and the absence of others become part of the signature of the SavedModel.
    def serve(inputs: TensorDict) -> TensorDict:
        return function(inputs)

    return serve


_PREFIX = Path(VARIABLES_DIR, "variables")
_KEY = "{}/{}/.ATTRIBUTES/VARIABLE_VALUE"
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_FINGERPRINT_FILE = "fingerprint.pb"
# Smaller arrays are copied: it would take longer to share their memory.
_SHARED_BYTES = 2**16


@contextlib.contextmanager
def _writing(directory: Path) -> Iterator[None]:
    """Context that names the directory that TensorFlow cannot write."""
    import tensorflow as tf  # a SavedModel is a TensorFlow program, on every backend

    try:
        yield
    except tf.errors.OpError as error:
        raise TfaipError(f"{directory} cannot be written: {shorten_text(str(error.message), 160)}") from error


class SavedModelTemplate(NamedTuple):
    """Files of a SavedModel, and the weight whose value each of its variables has.

    Args:
        files: their content by relative path, without the values of variables; None: a directory.
        keys: path of the weight by the key of the variable in the SavedModel.
        objects: the entry of the SavedModel that describes its objects.
    """

    files: Mapping[str, bytes | None]
    keys: Mapping[str, str]
    objects: bytes

    @classmethod
    def of(cls, directory: Path, keys: Mapping[str, str]) -> SavedModelTemplate | None:
        """Return the template of a SavedModel, whose keys may hold more than its own; None: not all are weights."""
        import tensorflow as tf

        reader = tf.train.load_checkpoint(str(directory / _PREFIX))
        found = set(reader.get_variable_to_shape_map()) - {_OBJECT_GRAPH}
        if not found <= keys.keys():
            return None
        files: dict[str, bytes | None] = {}
        for file in sorted(directory.rglob("*")):  # a directory before its files
            place = file.relative_to(directory)
            if file.is_dir():
                files[str(place)] = None
            elif place.parts[0] != VARIABLES_DIR and file.name != _FINGERPRINT_FILE:
                files[str(place)] = file.read_bytes()
        return cls(files, {key: keys[key] for key in sorted(found)}, reader.get_tensor(_OBJECT_GRAPH))

    def write(self, directory: Path, weights: Mapping[str, np.ndarray]) -> None:
        """Create `directory` with these values of the weights by path.

        Raises:
            TfaipError: if TensorFlow cannot write it, for example because the disk is full.
        """
        import tensorflow as tf

        directory.mkdir(parents=True, exist_ok=True)
        for name, content in self.files.items():
            if content is None:
                (directory / name).mkdir()
            else:
                (directory / name).write_bytes(content)
        with _writing(directory), tf.device("CPU:0"):
            tensors = {path: _tensor(weights[path]) for path in set(self.keys.values())}
            tf.raw_ops.SaveV2(
                prefix=str(directory / _PREFIX),
                tensor_names=[_OBJECT_GRAPH, *self.keys],
                shape_and_slices=[""] * (1 + len(self.keys)),
                tensors=[tf.constant(self.objects), *(tensors[path] for path in self.keys.values())],
            )


def _tensor(array: np.ndarray) -> Any:
    """Return an array as a tensor, which shares its memory if TensorFlow can use that as it is."""
    import tensorflow as tf

    is_aligned = array.ctypes.data % HOST_ALIGNMENT == 0
    if array.nbytes >= _SHARED_BYTES and array.dtype.kind == "f" and is_aligned and array.flags.writeable:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.constant(array)


T = TypeVar("T")

SAVED_MODEL_FILE = "saved_model.pb"
# The file is one message of Protocol Buffers, which cannot be larger.
_PROGRAM_BYTES = 2048 * MIB
_KERAS_2_ENDPOINT = "serving_default"
_DEFAULT_ENDPOINTS = ("serve", _KERAS_2_ENDPOINT)
_HIDDEN_ENDPOINTS = {_KERAS_2_ENDPOINT, "__saved_model_init_op"}


def is_saved_model(path: Path) -> bool:
    """Return True if a directory holds a SavedModel."""
    return (path / SAVED_MODEL_FILE).is_file()


class ServedModel:
    """SavedModel as a function of batches. It is a program: load only what you trust.

    The inputs and outputs of a model of Keras 2 have the names of its call, not those of its layers.

    Args:
        directory: the SavedModel.
        endpoint: name of one of its signatures; None: `serve`, else `serving_default`, else the only one.

    Raises:
        ModuleNotFoundError: if TensorFlow is not installed.
        UsageError: if `directory` is no SavedModel.
        TfaipError: if it is damaged, or has no such endpoint.
    """

    def __init__(self, directory: str | Path, endpoint: str | None = None) -> None:
        directory = Path(directory)
        if not is_saved_model(directory):
            raise UsageError(f"no SavedModel at {directory}: it has no {SAVED_MODEL_FILE}")
        with quiet_tensorflow():
            import tensorflow as tf  # a SavedModel is a TensorFlow program, on every backend

            try:
                require_regular_files(directory)
                open_file(directory / SAVED_MODEL_FILE, _PROGRAM_BYTES).close()
                # Kept as an attribute: it owns the variables that its functions use.
                self._loaded = tf.saved_model.load(str(directory))
            except Exception as error:  # damage may raise anything, depending on its place
                raise TfaipError(
                    f"the SavedModel {directory} cannot be loaded: {shorten_text(str(error), 150)}"
                ) from error
        self._convert = tf.convert_to_tensor
        self._directory = directory
        self.endpoints: list[str] = sorted(set(self._loaded.signatures) - _HIDDEN_ENDPOINTS)
        only = self.endpoints if len(self.endpoints) == 1 else []
        candidates = [*_DEFAULT_ENDPOINTS, *only] if endpoint is None else [endpoint]
        chosen = next((name for name in candidates if name in self._loaded.signatures), None)
        if chosen is None:
            raise TfaipError(
                f"the SavedModel {directory} has the endpoints {self.endpoints}, expected {endpoint or 'one of them'}"
            )
        signature = self._loaded.signatures[chosen]
        self._endpoint = signature_endpoint(signature)
        if endpoint is None and chosen == _KERAS_2_ENDPOINT:
            self._endpoint = keras_2_endpoint(self._loaded, signature)
        self._types = {name: spec.dtype for name, spec in self._endpoint.inputs.items()}

    @property
    def inputs(self) -> dict[str, TensorSpec]:
        """The inputs by name, each with its batch dimension."""
        return {name: _spec(spec) for name, spec in self._endpoint.inputs.items()}

    @property
    def outputs(self) -> dict[str, TensorSpec]:
        """The outputs by name, each with its batch dimension."""
        return {name: _spec(spec) for name, spec in self._endpoint.outputs.items()}

    def require_inputs(self, specs: Mapping[str, TensorSpec]) -> None:
        """Raise unless samples of these specs (without batch dimension) can be fed."""
        specs = self._named(specs)
        for name, wanted in self.inputs.items():
            if name not in specs or not _fits(specs[name], wanted):
                raise UsageError(
                    f"the SavedModel {self._directory} does not fit the data: it wants {_text(self.inputs)}, with the "
                    f"batch dimension first; the data give {_text(specs)}, without it; {name!r} differs"
                )

    def __call__(self, inputs: TensorDict) -> dict[str, np.ndarray]:
        """Return the outputs of a batch by name."""
        if not isinstance(inputs, Mapping):
            raise TypeError(f"a SavedModel takes a dict of inputs {sorted(self._types)}, got {type(inputs).__name__}")
        inputs = self._named(inputs)
        missing = sorted(set(self._types) - set(inputs))
        if missing:
            raise UsageError(f"the SavedModel {self._directory} wants {sorted(self._types)}, not given: {missing}")
        tensors = {name: self._convert(np.asarray(inputs[name]), dtype) for name, dtype in self._types.items()}
        outputs = self._endpoint.call(tensors)
        return {name: value.numpy() for name, value in outputs.items()}

    def _named(self, values: Mapping[str, T]) -> dict[str, T]:
        """Return inputs of a scenario under their names in the SavedModel."""
        return {name if name in self._types else export_name(name): value for name, value in values.items()}


def _spec(spec: Any) -> TensorSpec:
    # An empty shape means an unknown rank here, which `TensorSpec` cannot express; a batch has a dimension at least.
    shape = () if spec.shape.rank is None else tuple(spec.shape)
    return TensorSpec(shape, spec.dtype.name)


def _fits(sample: TensorSpec, batch: TensorSpec) -> bool:
    if sample.dtype != batch.dtype and not np.can_cast(sample.numpy_dtype, batch.numpy_dtype, "same_kind"):
        return False
    if not batch.shape:
        return True
    if len(sample.shape) + 1 != len(batch.shape):
        return False
    sizes = zip(sample.shape, batch.shape[1:], strict=True)
    return all(given is None or wanted is None or given == wanted for given, wanted in sizes)


def _text(specs: Mapping[str, TensorSpec]) -> str:
    return ", ".join(f"{name}: {spec.dtype}{[*spec.shape]}" for name, spec in sorted(specs.items()))


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Context without what TensorFlow and Keras print about assets, gradients and endpoints."""
    logs = [logging.getLogger("tensorflow"), logging.getLogger("absl")]
    levels = [log.level for log in logs]
    # `tf.saved_model.save` logs by `logging.info`, which adds a handler to a root logger that has
    # none. It would stay there for the rest of the program.
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


_MARK_OF_KERAS_2 = "keras_api"


@dataclass(frozen=True)
class Endpoint:
    """A function of a SavedModel.

    Args:
        call: takes and returns tensors by name.
        inputs: TensorFlow's specs by name.
        outputs: TensorFlow's specs by name.
    """

    call: Callable[[dict[str, Any]], Mapping[str, Any]]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


def signature_endpoint(signature: Any) -> Endpoint:
    """Return a signature of a SavedModel as an endpoint."""
    _, inputs = signature.structured_input_signature
    return Endpoint(lambda tensors: signature(**tensors), inputs, signature.structured_outputs)


def keras_2_endpoint(loaded: Any, signature: Any) -> Endpoint:
    """Return `serving_default` with the names that `loaded(inputs, training=False)` uses.

    If the signature has other inputs or outputs than this call, or the model is not one of Keras 2, it keeps its names.
    """
    served = signature_endpoint(signature)
    if not hasattr(loaded, _MARK_OF_KERAS_2):
        return served
    function = getattr(loaded, "__call__", None)  # noqa: B004 (its variants are read, it is not only called)
    for variant in getattr(function, "concrete_functions", ()):
        (given, *further), options = variant.structured_input_signature
        # The further arguments are `training` and `mask`, by position or by name.
        if any(value is not False and value is not None for value in (*further, *options.values())):
            continue
        inputs = _specs_by_name(given, served.inputs)
        outputs = _specs_by_name(variant.structured_outputs, served.outputs)
        if inputs is None or outputs is None:
            continue
        return Endpoint(_caller(function, given, further, options, outputs), inputs, outputs)
    return served


def _caller(
    function: Any, given: Any, further: list[Any], options: Mapping[str, Any], outputs: Mapping[str, Any]
) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    def call(inputs: dict[str, Any]) -> Mapping[str, Any]:
        argument = inputs if isinstance(given, dict) else next(iter(inputs.values()))
        result = function(argument, *further, **options)
        return result if isinstance(result, dict) else dict.fromkeys(outputs, result)

    return call


def _specs_by_name(structure: Any, served: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the specs of the call by name; None if they are not those of the signature.

    A single tensor has the name that the signature gives it.
    """
    is_single = not isinstance(structure, dict)
    specs = [structure] if is_single else structure.values()
    if _count_kinds(specs) != _count_kinds(served.values()):
        return None
    return served if is_single else structure


def _count_kinds(specs: Any) -> Counter[str]:
    """Count types and shapes; a spec of something else than a tensor has neither."""
    return Counter(f"{getattr(spec, 'dtype', None)} {getattr(spec, 'shape', None)}" for spec in specs)
