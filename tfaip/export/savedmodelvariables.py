"""Variables of a SavedModel of any origin, and what graphs of today take from one of tfaip 1.2.

Only their values are read: no program of the file is loaded.
"""

import math
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.backend.environment import quiet_stderr
from tfaip.components.modelfiles import FormerModel
from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import TfaipError
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import WeightsDoNotFit, assign_arrays, built_within
from tfaip.model.weightsource import Source, match_tails
from tfaip.util.logging import logger
from tfaip.util.reading import require_regular_files
from tfaip.util.text import shorten_text

VARIABLES_DIR = "variables"
_INDEX_FILE = Path(VARIABLES_DIR, "variables.index")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"
# An export of Keras 3 has all variables in the first list; its other lists contain copies.
_KERAS_3_LIST, _KERAS_3_COPIES = "variables", "_all_variables"
# Keras 2 lists all variables of a layer; metrics and optimizer of a model are not weights.
_KERAS_2_MARK, _KERAS_2_NO_WEIGHTS = "keras_api", {"keras_api", "optimizer"}
_LISTS = {"variables", "trainable_variables", "non_trainable_variables"}
# Of a model of tfaip 1.2: the places of its outermost graph, in its SavedModels and its checkpoints.
_FORMER_GRAPH = re.compile(r"(?:layer(?:_with_weights)?-\d+|root|graph)/graph/")
# Keras 2 numbers the layers of a functional model; only the names of variables have their names.
_NUMBERED_LAYER = re.compile(r"layer(_with_weights)?-\d+")
# Characters of the attributes that lead to a variable; paths grow with the square of the depth of a file.
_LONGEST_PATH = 2000

log = logger(__name__)


@dataclass(frozen=True)
class _Variable:
    """Variable of a SavedModel.

    Args:
        attributes: path of attributes to it, through the author's own attributes rather than lists of Keras.
        place: shortest path of attributes to it, also through lists of Keras.
        key: its key in the file.
    """

    attributes: str
    place: str
    name: str
    key: str


def has_variables(path: Path) -> bool:
    """Return True if a directory holds a SavedModel with variables."""
    return (path / _INDEX_FILE).is_file()


def read_saved_model(path: Path, trim_graph_name: bool = True) -> Source:
    """Read the variables of a SavedModel by name.

    A variable is found by its own name (`model/dense/kernel`), with `trim_graph_name` also by that name without its
    first part (`dense/kernel`), and by the attributes that lead to it (`layers/0/kernel`). A name that several
    variables share is not used for any of them, but attributes always are. Variables of tfaip 1.2 are found by the
    attributes below their outermost graph, too. With `trim_graph_name` a variable is also found by the end of any of
    these names (see `Source.by_tail`). Optimizer and metrics of a Keras 2 model are left out.
    """
    with quiet_stderr():
        import tensorflow as tf  # the format is TensorFlow's, on every backend
    try:
        size = require_regular_files(path)
        reader = tf.train.load_checkpoint(str(path / _INDEX_FILE.with_suffix("")))
        _require_fitting(reader, size)
        variables = list(_variables(reader))
        values = {variable.key: np.asarray(reader.get_tensor(variable.key)) for variable in variables}
    # Damage may raise anything: the index may claim any size of its parts, which TensorFlow allocates at first.
    except Exception as error:
        raise TfaipError(f"the SavedModel {path} cannot be read: {shorten_text(str(error), 150)}") from error
    return _source(str(path), variables, values, trim_graph_name)


def _require_fitting(reader: Any, size: int) -> None:
    """Raise unless the variables, which may claim any shape, fit into so many bytes."""
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    # A string has no fixed size: an empty one takes a byte.
    sizes = {name: 1 if dtype.name == "string" else dtype.size for name, dtype in types.items()}
    claimed = sum(sizes[name] * math.prod(shape) for name, shape in shapes.items())
    if claimed > size:
        raise ValueError(f"its variables claim {claimed} bytes, its files have {size}")


def _source(
    description: str, variables: list[_Variable], values: Mapping[str, np.ndarray], trim_graph_name: bool
) -> Source:
    """Return the arrays by the name shown in messages, with all further names as aliases."""
    attributes = {variable.key: variable.attributes for variable in variables}
    taken = set(attributes.values())
    names = {v.key: v.name for v in variables if v.name == v.attributes or v.name not in taken}
    shown = {**attributes, **_unique(names)}
    places = {variable.key: variable.place for variable in variables}
    further = [attributes, places, {variable.key: _with_names_of_layers(variable) for variable in variables}]
    below = {key: _FORMER_GRAPH.match(path) for key, path in attributes.items()}
    further.insert(0, {key: attributes[key][match.end() :] for key, match in below.items() if match is not None})
    if trim_graph_name:
        further.insert(1, {v.key: v.name.partition("/")[2] for v in variables if "/" in v.name})
    aliases: dict[str, str] = {}
    for by_key in further:
        for key, alias in _unique(by_key).items():
            aliases.setdefault(alias, shown[key])
    return Source(description, {shown[key]: value for key, value in values.items()}, aliases, by_tail=trim_graph_name)


def _with_names_of_layers(variable: _Variable) -> str:
    """Return the attributes with layer names for numbers: `lstm/cell/kernel` for `layer_with_weights-2/cell/kernel`.

    Both paths have the same number of parts if layers are named like the attributes that hold them;
    otherwise only the first part of the name is certain to be the name of a layer.
    """
    attributes, names = variable.attributes.split("/"), variable.name.split("/")
    certain = names if len(names) == len(attributes) else names[:1]
    for number, name in enumerate(certain):
        if _NUMBERED_LAYER.fullmatch(attributes[number]):
            attributes[number] = name
    return "/".join(attributes)


def _unique(names: Mapping[str, str]) -> dict[str, str]:
    count = Counter(names.values())
    return {key: name for key, name in names.items() if count[name] == 1 and name}


def _variables(reader: Any) -> Iterator[_Variable]:
    """Yield all variables."""
    from tensorflow.core.protobuf.trackable_object_graph_pb2 import TrackableObjectGraph

    graph = TrackableObjectGraph()
    graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))
    by_author = _paths(graph.nodes, without=_LISTS)
    for index, place in _paths(graph.nodes).items():
        for attribute in graph.nodes[index].attributes:
            if attribute.name == _VALUE:
                attributes = by_author.get(index, place)
                name = attribute.full_name.removesuffix(":0") or attributes
                yield _Variable(attributes, place, name, attribute.checkpoint_key)


def _paths(nodes: Any, without: Set[str] = frozenset()) -> dict[int, str]:
    """Return the shortest attribute path from the root to every object, in the order of their depth."""
    names = [child.local_name for child in nodes[0].children]
    refused = _KERAS_2_NO_WEIGHTS | without if _KERAS_2_MARK in names else without
    paths, taken = {0: ""}, {""}
    queue = deque([0])
    while queue:
        index = queue.popleft()
        children = list(nodes[index].children)
        if index == 0 and _KERAS_3_COPIES in names:
            children = [child for child in children if child.local_name == _KERAS_3_LIST]
        for child in children:
            if child.node_id not in paths and child.local_name not in refused:
                prefix = f"{paths[index]}/" if index else ""
                path = prefix + child.local_name.lstrip("_")
                if path in taken:  # an attribute has the same name without underscore
                    path = prefix + child.local_name
                if len(path) > _LONGEST_PATH:
                    raise ValueError(f"a path of attributes has more than {_LONGEST_PATH} characters")
                taken.add(path)
                paths[child.node_id] = path
                queue.append(child.node_id)
    return paths


def load_former_weights(scenario: ScenarioComponents[Any, Any], model: FormerModel) -> None:
    """Build the graph of a scenario and give it the weights of a model of tfaip 1.2."""
    source = read_saved_model(model.saved_model)
    with built_within(source.arrays, str(model.saved_model)):
        graph = scenario.graph
        graph.predict(scenario.data.create_input_layers())
    weight_ids = {id(weight) for weight in graph.weights}
    # States of random generators are no weights.
    weights = {path: variable for path, variable in variables_by_path(graph).items() if id(variable) in weight_ids}
    names = {**source.aliases, **{name: name for name in source.arrays}}
    found = {path: names[path] for path in weights if path in names}
    matches = match_tails([path for path in weights if path not in found], names, set(found.values()))
    found |= {path: match.name for path, match in matches.items() if match.name is not None}
    arrays = {path: source.arrays[name] for path, name in found.items()}
    try:
        assign_arrays(weights, arrays, str(model.saved_model))
    except WeightsDoNotFit as error:
        error.add_note("give the layers the attributes that they had in tfaip 1.2")
        raise
    log.info("%d weights read from %s, a model of tfaip 1.2", len(arrays), model.saved_model)
