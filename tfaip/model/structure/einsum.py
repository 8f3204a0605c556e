"""Axes after an Einstein sum: each letter is one dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras

from tfaip.model.structure.tensors import TensorAxes, TensorAxis
from tfaip.model.structure.tracing import Tracer


def einsum_axes(tracer: Tracer, subscripts: str, operands: Sequence[Any], tensors: Sequence[TensorAxes]) -> TensorAxes:
    """Return the axes of an Einstein sum.

    Args:
        tracer: told which dimensions are the same.
        subscripts: e.g. `...x,xy->...y`.
        operands: tensors and variables.
        tensors: their axes.

    Raises:
        ValueError: if the subscripts do not name the result.
    """
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    if not arrow:
        raise ValueError(f"einsum {subscripts} does not name its result")
    letters = [_spread(text, len(axes)) for text, axes in zip(inputs.split(","), tensors, strict=True)]
    found: dict[str, TensorAxis] = {}
    # Tensors first: the axes of variables follow them.
    order = sorted(range(len(operands)), key=lambda i: isinstance(operands[i], keras.Variable))
    for i in order:
        is_variable = isinstance(operands[i], keras.Variable)
        for place, letter in enumerate(letters[i]):
            axis = tensors[i][place]
            if letter not in found:
                found[letter] = axis
            elif is_variable:
                tracer.record.follow(operands[i], place, found[letter], is_input=letter not in output)
            elif axis is not None:
                known = found[letter]
                found[letter] = axis if known is None else tracer.bindings.unify(known, axis)
    spread = [letter for text in letters for letter in text if letter.startswith(".")]
    result = _spread(output, len(output.replace("...", "")) + len(set(spread)))
    return tuple(found.get(letter) for letter in result)


def _spread(text: str, count: int) -> list[str]:
    """Return a name for each axis: a letter, or `.1` for the axis before the last one that an ellipsis stands for."""
    if "..." not in text:
        return list(text)
    before, _, after = text.partition("...")
    hidden = count - len(before) - len(after)
    return [*before, *(f".{hidden - i}" for i in range(hidden)), *after]
