"""First values of weights as text: a number, or an initializer of Keras with arguments; needs no backend."""

from __future__ import annotations

import ast
import dataclasses
import math
from typing import Any, cast

from tfaip.errors import UsageError
from tfaip.model.keras_objects.base import CustomObject
from tfaip.model.keras_objects.initializers import Constant, Initializer
from tfaip.params.resolution.choices import ClassChoice
from tfaip.params.types.objects import is_object_name
from tfaip.util.text import shorten, shorten_text

EXPECTED = "a number, or an initializer of Keras by name, e.g. glorot_uniform or RandomNormal(stddev=0.1)"
_LONGEST = 1000


def expected_initializer(text: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it describes an initializer."""
    try:
        initializer_of(text)
    except (UsageError, ValueError, TypeError) as error:
        return f"{EXPECTED} ({shorten_text(str(error), 150)})"
    return None


def initializer_of(text: str) -> Initializer:
    """Return the params of the initializer that a text describes.

    Raises:
        UsageError, ValueError, TypeError: if it describes none.
    """
    if len(text) > _LONGEST:
        raise UsageError(f"more than {_LONGEST} characters")
    try:
        number = float(text)
    except ValueError:
        pass
    else:
        if not math.isfinite(number):
            raise UsageError("a number must be finite")
        return Constant(number)
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise UsageError("it is no name with arguments") from error
    name, arguments = parsed, {}
    if isinstance(parsed, ast.Call):
        name, arguments = parsed.func, _arguments(parsed)
    if not isinstance(name, ast.Name) or is_object_name(name.id):
        raise UsageError("it is no name with arguments")
    chosen = ClassChoice(Initializer, {}).select(name.id, "initializer")
    if issubclass(chosen, CustomObject):
        # A stored text must not name code.
        raise UsageError(f"{name.id} is none of Keras")
    made: Any = chosen(**arguments)
    return cast("Initializer", made)


def seeded(initializer: Initializer, seed: int) -> Initializer:
    """Return the initializer with a seed, unless it draws nothing or has one."""
    has_seed = any(field.name == "seed" for field in dataclasses.fields(initializer))
    if not has_seed or getattr(initializer, "seed", None) is not None:
        return initializer
    changes: dict[str, Any] = {"seed": seed}
    return dataclasses.replace(initializer, **changes)


def _arguments(call: ast.Call) -> dict[str, Any]:
    if call.args:
        raise UsageError(f"arguments have names, as in scale=2.0, got {shorten(ast.unparse(call.args[0]))}")
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg is not None}
