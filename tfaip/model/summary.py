"""Summary of a model: its layers with their output shapes and parameters."""

import contextlib
import math
from collections.abc import Iterator

import keras

from tfaip.backend.kerastools import sublayers
from tfaip.model.variables import all_layers_by_path
from tfaip.params.names import top_package
from tfaip.util.terminal import table_lines


def summarize(graph: keras.layers.Layer) -> list[tuple[str, str, str, int, int]]:
    """Return a summary of each layer of a built graph, in the order in which the graph defines them.

    It consists of the attribute path, as in `no_train_scope`, the class, the output shapes of one sample in words
    (empty if they are not known), the number of parameters, and how many of these the optimizer changes. A
    layer of Keras is one row, whatever it consists of; models and layers of the user are shown by what is below them,
    and if they own weights. Layers that share weights count them once.
    """
    paths = {id(layer): path for path, layer in all_layers_by_path(graph).items()}
    counted: set[int] = set()
    rows = []
    for layer, weights in _shown(graph, set()):
        if id(layer) not in paths or isinstance(layer, keras.layers.InputLayer):
            continue
        sizes = {id(weight): math.prod(weight.shape) for weight in weights if id(weight) not in counted}
        counted.update(sizes)
        trained = sum(sizes.get(id(weight), 0) for weight in layer.trainable_weights)
        rows.append((paths[id(layer)], type(layer).__name__, _output_shapes(layer), sum(sizes.values()), trained))
    return rows


def summary_lines(graph: keras.layers.Layer) -> list[str]:
    """Return the summary of a built graph as a table, the totals last."""
    rows = summarize(graph)
    cells = [["layer", "class", "output", "parameters", "trained"]]
    cells += [[*row[:3], *(f"{number:,}" for number in row[3:])] for row in rows]
    parameters, trained = sum(row[3] for row in rows), sum(row[4] for row in rows)
    rest = f", {parameters - trained:,} of them not trained" if trained < parameters else ""
    return [*table_lines(cells, left=3), f"{parameters:,} parameters in {len(rows)} layers{rest}"]


def _shown(layer: keras.layers.Layer, seen: set[int]) -> Iterator[tuple[keras.layers.Layer, list[keras.Variable]]]:
    """Yield the layers that are shown, each once, with the weights that are not those of other rows."""
    for child in sublayers(layer):
        if id(child) in seen:
            continue
        seen.add(id(child))
        inner = sublayers(child)
        is_of_keras = top_package(type(child).__module__) == "keras"
        if not isinstance(child, keras.Model) and (is_of_keras or not inner):
            yield child, child.weights
            continue
        below = {id(weight) for part in inner for weight in part.weights}
        own = [weight for weight in child.weights if id(weight) not in below]
        if own:
            yield child, own
        yield from _shown(child, seen)


def _output_shapes(layer: keras.layers.Layer) -> str:
    """Return the shapes without the batch dimension, `?` for a variable length; empty if they are not known."""
    shapes: list[tuple[int | None, ...]] = []
    if type(layer).compute_output_shape is not keras.layers.Layer.compute_output_shape:  # else it would call the layer
        with contextlib.suppress(Exception):  # of a layer of the user; a summary is no reason to end a training
            config = layer.get_build_config() or {}
            computed = layer.compute_output_shape(*config.get("shapes_dict", config).values())
            keras.tree.map_shape_structure(shapes.append, computed)
    return ", ".join("x".join("?" if n is None else str(n) for n in shape[1:]) or "scalar" for shape in shapes if shape)
