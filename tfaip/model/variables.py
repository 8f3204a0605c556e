"""Variables of a graph by stable names: the path of attributes that leads to them.

Keras names layers by a counter per process (`dense`, `dense_1`): a second build of the same graph gets other names.
The attribute path (`encoder/layers/0/kernel`) is the same in every process and on every backend; checkpoints, exports
and warm starts use it.
"""

from collections.abc import Iterator
from typing import Any

import keras

from tfaip.backend.kerastools import KERAS_ATTRIBUTES, is_functional
from tfaip.model.kerasgraph import KerasGraph, counted_names, is_automatic_name


def variables_by_path(layer: keras.layers.Layer) -> dict[str, keras.Variable]:
    """Return all variables below `layer` (weights, statistics, seed generators): attribute path -> variable.

    A variable that can be reached on several paths has the first one in alphabetical order, level by level.
    """
    found = {id(value): (path, value) for path, value in _walk(layer) if isinstance(value, keras.Variable)}
    missing = [v.path for v in layer.variables if id(v) not in found]
    if missing:
        raise ValueError(f"variables that no attribute of {type(layer).__name__} leads to: {', '.join(missing)}")
    named = dict(found.values())
    if len(named) < len(found):
        paths = ", ".join(sorted(path for path, _ in found.values()))
        raise ValueError(f"two variables of {type(layer).__name__} have the same path; all paths: {paths}")
    return named


def layers_by_path(layer: keras.layers.Layer) -> dict[str, keras.layers.Layer]:
    """Return all layers below `layer` (built) that hold weights, on any level, sorted by attribute path."""
    return {path: found for path, found in all_layers_by_path(layer).items() if found.weights}


def all_layers_by_path(layer: keras.layers.Layer) -> dict[str, keras.layers.Layer]:
    """Return all layers below `layer`, also those without weights, sorted by attribute path."""
    layers = {path: value for path, value in _walk(layer) if isinstance(value, keras.layers.Layer) and path}
    return {path: layers[path] for path in sorted(layers)}


def _walk(root: keras.layers.Layer) -> Iterator[tuple[str, Any]]:
    """Yield everything that attributes lead to, once, with its path.

    Breadth first: the shortest path wins, which is the one that the author of the graph would name.
    """
    queue: list[tuple[str, Any]] = [("", root)]
    seen: set[int] = set()
    while queue:
        path, value = queue.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield path, value
        if not isinstance(value, keras.Variable):
            queue.extend((f"{path}/{name}" if path else name, child) for name, child in _children(value))


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, KerasGraph):
        # The paths begin within the model: `hidden/kernel`.
        network = value.network
        if is_functional(network):
            yield from zip(counted_names(network.layers), network.layers, strict=True)
        else:
            yield from _children(network)
    elif isinstance(value, keras.Model) and is_functional(value):
        # Positions, not counted names, since checkpoints have them.
        for position, layer in enumerate(value.layers):
            yield str(position) if is_automatic_name(layer) else layer.name, layer
    elif isinstance(value, (keras.layers.Layer, keras.random.SeedGenerator)):
        kinds = (keras.Variable, keras.layers.Layer, keras.random.SeedGenerator, list, tuple, dict)
        own = vars(value).keys() - KERAS_ATTRIBUTES
        nodes = {name: child for name, child in vars(value).items() if name in own and isinstance(child, kinds)}
        public = {name: name.lstrip("_") for name in nodes}  # unless another attribute has that name
        named = [(name if public[name] in nodes else public[name], child) for name, child in nodes.items()]
        yield from sorted(named, key=lambda item: item[0])
    elif isinstance(value, (list, tuple)):
        yield from ((str(i), item) for i, item in enumerate(value))
    elif isinstance(value, dict):
        yield from ((str(key), value[key]) for key in sorted(value, key=str))
