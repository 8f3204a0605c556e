"""First values of weights by rules on their paths, in the place of those of the layers."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import keras
import numpy as np

from tfaip.model.gates import gate_names
from tfaip.model.variables import all_layers_by_path, variables_by_path
from tfaip.model.weights import assign_arrays, variable_arrays
from tfaip.params.limits import FieldAdvice, FieldError
from tfaip.trainer.pathpatterns import path_matches
from tfaip.trainer.weightrules.initializers import initializer_of, seeded
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

log = logger(__name__)

FIELD = "param_init"
_ALL = slice(None)
_FUSED = ("kernel", "recurrent_kernel", "bias")

Part = tuple[str, slice]


@dataclass
class _Weight:
    """Weight with the rules of its parts.

    Args:
        variable: the weight.
        parts: path and slice of the last axis; one part unless it is fused.
        rules: rule by the path of the part.
    """

    variable: keras.Variable
    parts: Sequence[Part]
    rules: dict[str, str] = field(default_factory=dict)


def initialize(rules: Mapping[str, str], graph: keras.layers.Layer, seed: int) -> None:
    """Set weights to first values.

    A part of a weight has the first rule that matches its path, or the path of the whole weight. Its numbers are a
    function of the seed and of its path.

    Args:
        rules: regular expression on the whole path of a weight, or of something above it -> text of an initializer.
        graph: the outermost graph, built.
        seed: of the training.

    Raises:
        FieldError: if a rule matches nothing, or its initializer cannot make such a weight; its path begins at the
            trainer params.
    """
    if not rules:
        return
    weights = _weights(graph)
    for pattern in rules:
        _claim(pattern, weights)
    arrays = variable_arrays({path: weight.variable for path, weight in weights.items()})
    changed = {
        path: _filled(arrays[path], path, weight, rules, seed) for path, weight in weights.items() if weight.rules
    }
    assign_arrays({path: weights[path].variable for path in changed}, changed, "the initializers")
    _log_table(weights, rules)


def _weights(graph: keras.layers.Layer) -> dict[str, _Weight]:
    gates = _gates_of(graph)
    known = {id(weight) for weight in graph.weights if weight.trainable}
    return {
        path: _Weight(variable, gates.get(path, [(path, _ALL)]))
        for path, variable in variables_by_path(graph).items()
        if id(variable) in known
    }


def _gates_of(graph: keras.layers.Layer) -> dict[str, list[Part]]:
    """Return the parts of fused weights by the path of the weight: path of the part, and its slice of the last axis.

    The forget gate of `lstm/cell/bias` is `lstm/cell/forget_gate/bias`.
    """
    found: dict[str, list[Part]] = {}
    for path, layer in all_layers_by_path(graph).items():
        gates = gate_names(layer)
        for name in _FUSED if gates else ():
            weight = getattr(layer, name)
            size = 0 if weight is None else int(weight.shape[-1]) // len(gates)
            found[f"{path}/{name}"] = [
                (f"{path}/{gate}/{name}", slice(i * size, (i + 1) * size)) for i, gate in enumerate(gates)
            ]
    return found


def _claim(pattern: str, weights: Mapping[str, _Weight]) -> None:
    """Give a rule the parts that it matches and that have none yet."""
    compiled, matches = re.compile(pattern), False
    for path, weight in weights.items():
        whole = path_matches(compiled, path)
        for part, _ in weight.parts:
            if whole or path_matches(compiled, part):
                matches = True
                weight.rules.setdefault(part, pattern)
    if not matches:
        known = [part for weight in weights.values() for part, _ in weight.parts]
        raise FieldAdvice(
            f"{{{FIELD}}} {shorten(pattern)} matches no weight; it must match a whole path, e.g. '.*kernel'; the "
            f"weights are {shorten_text(', '.join(known), 120)}",
            FIELD,
        )


def _filled(array: np.ndarray, path: str, weight: _Weight, rules: Mapping[str, str], seed: int) -> np.ndarray:
    chosen = set(weight.rules.values())
    if len(weight.rules) == len(weight.parts) and len(chosen) == 1:
        return _drawn(chosen.pop(), path, array.shape, rules, seed)
    filled = np.array(array)
    for part, place in weight.parts:
        if part in weight.rules:
            shape = filled[..., place].shape
            filled[..., place] = _drawn(weight.rules[part], part, shape, rules, seed)
    return filled


def _drawn(pattern: str, path: str, shape: tuple[int, ...], rules: Mapping[str, str], seed: int) -> np.ndarray:
    text = rules[pattern]
    try:
        initializer = seeded(initializer_of(text), zlib.crc32(f"{seed}/{path}".encode()) % 2**31)
        return np.array(keras.ops.convert_to_numpy(initializer.create()(shape, dtype="float32")))
    except Exception as error:  # of Keras, for a shape that it cannot fill
        expected = f"an initializer of weights of shape {list(shape)} as {path} has ({shorten_text(str(error), 120)})"
        raise FieldError(FIELD, text, expected, index=pattern) from error


def _log_table(weights: Mapping[str, _Weight], rules: Mapping[str, str]) -> None:
    """Log the first values of all trained weights."""
    rows = []
    for path, weight in weights.items():
        shape = "x".join(map(str, weight.variable.shape)) or "scalar"
        found = list(dict.fromkeys(weight.rules.get(part) for part, _ in weight.parts))
        if len(found) == 1:
            rows.append((path, shape, _described(found[0], rules)))
        else:
            rows += [(part, "", _described(weight.rules.get(part), rules)) for part, _ in weight.parts]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    log.info("%s: first values of the weights", FIELD)
    for path, shape, text in rows:
        log.info("  %s  %s  %s", path.ljust(widths[0]), shape.ljust(widths[1]), text)


def _described(pattern: str | None, rules: Mapping[str, str]) -> str:
    return "by its layer" if pattern is None else f"{rules[pattern]}  ({shorten_text(pattern, 40)})"
