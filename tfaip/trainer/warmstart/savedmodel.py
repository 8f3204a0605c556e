"""The variables of a SavedModel of any origin. Its program is not loaded, only the values of its variables."""

from __future__ import annotations

import importlib.util
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.errors import TfaipError, UsageError
from tfaip.trainer.transfer import Source
from tfaip.util.backend import quiet_stderr
from tfaip.util.reading import require_regular_files
from tfaip.util.text import shorten_text

_INDEX_FILE = Path("variables", "variables.index")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"
# What Keras exports lists all variables here; its other lists repeat them, as copies.
_KERAS_LIST, _KERAS_COPIES = "variables", "_all_variables"


def is_saved_model(path: Path) -> bool:
    """Whether a directory holds a SavedModel with variables."""
    return (path / _INDEX_FILE).is_file()


def read_saved_model(path: Path, trim_graph_name: bool = True) -> Source:
    """The variables of a SavedModel by name.

    A variable goes by its own name (`model/dense/kernel`), by that name without its first part if `trim_graph_name`
    (`dense/kernel`), and by the attributes that lead to it (`layers/0/kernel`); a name that several variables would
    have is nobody's, except that every variable is found by its attributes.

    Raises:
        UsageError: TensorFlow is not installed.
        TfaipError: the files are damaged.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise UsageError(
            f"reading the SavedModel {path} needs tensorflow, which is not installed: install it, or give an exported "
            "model or a checkpoint"
        )
    with quiet_stderr():
        import tensorflow as tf
        from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    try:
        size = require_regular_files(path)
        reader = tf.train.load_checkpoint(str(path / _INDEX_FILE.with_suffix("")))
        _require_fitting(reader, size)
        variables = list(_variables(reader))
        values = {attributes: np.asarray(reader.get_tensor(key)) for attributes, _, key in variables}
    except (tf.errors.OpError, DecodeError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise TfaipError(f"the SavedModel {path} cannot be read: {shorten_text(str(error), 150)}") from error
    return Source(str(path), *_named(values, {attributes: name for attributes, name, _ in variables}, trim_graph_name))


def _require_fitting(reader: Any, size: int) -> None:
    """Raise unless the variables, which may claim any shape, fit into so many bytes."""
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    # Texts have no size of their own.
    claimed = sum(types[name].size * math.prod(shape) for name, shape in shapes.items() if types[name].name != "string")
    if claimed > size:
        raise ValueError(f"its variables claim {claimed} bytes, its files have {size}")


def _named(
    values: Mapping[str, np.ndarray], names: Mapping[str, str], trim: bool
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arrays by the name that is shown, and aliases."""
    own = {attributes: name for attributes, name in _unique(names).items() if name == attributes or name not in values}
    shown = {attributes: own.get(attributes, attributes) for attributes in values}
    trimmed = _unique({a: name.partition("/")[2] for a, name in names.items() if "/" in name}) if trim else {}
    aliases: dict[str, str] = {}
    for further in (trimmed, {attributes: attributes for attributes in values}):
        for attributes, alias in further.items():
            aliases.setdefault(alias, shown[attributes])
    return {shown[a]: value for a, value in values.items()}, aliases


def _unique(names: Mapping[str, str]) -> dict[str, str]:
    count = Counter(names.values())
    return {key: name for key, name in names.items() if count[name] == 1 and name}


def _variables(reader: Any) -> Iterator[tuple[str, str, str]]:
    """Attribute path, name, and key in the file of every variable."""
    if not reader.has_tensor(_OBJECT_GRAPH):
        # Written before TensorFlow 2: the names are all there is.
        for name in sorted(reader.get_variable_to_shape_map()):
            yield name, name, name
        return
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    graph = TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))
    for path, node in _walk(graph.nodes):
        for attribute in node.attributes:
            if attribute.name == _VALUE:
                yield path, attribute.full_name.removesuffix(":0") or path, attribute.checkpoint_key


def _walk(nodes: Any) -> Iterator[tuple[str, Any]]:
    """Every object, once, by the shortest attribute path from the root."""
    queue: list[tuple[str, int]] = [("", 0)]
    seen = {0}
    while queue:
        path, index = queue.pop(0)
        yield path, nodes[index]
        children = list(nodes[index].children)
        if not path and _KERAS_COPIES in [child.local_name for child in children]:
            children = [child for child in children if child.local_name == _KERAS_LIST]
        for child in children:
            if child.node_id not in seen:
                seen.add(child.node_id)
                name = child.local_name.lstrip("_")
                queue.append((f"{path}/{name}" if path else name, child.node_id))
