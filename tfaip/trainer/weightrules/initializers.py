"""First values of weights as text: a number, or an initializer of Keras with arguments; needs no backend."""

from __future__ import annotations

import ast
import inspect
import math
from typing import Any

from tfaip.errors import UsageError
from tfaip.model.keras_objects import Initializer
from tfaip.params.types.objects import plain_argument
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
        return Initializer("Constant", value=number)
    try:
        parsed = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise UsageError("it is no name with arguments") from error
    name, arguments = parsed, {}
    if isinstance(parsed, ast.Call):
        name, arguments = parsed.func, _arguments(parsed)
    if not isinstance(name, ast.Name):  # a stored text must not name code
        raise UsageError("it is no name with arguments")
    return Initializer(name.id, **arguments)


def seeded(initializer: Initializer, seed: int) -> Initializer:
    """Return the initializer with a seed, unless it draws nothing or has one."""
    takes_seed = "seed" in inspect.signature(type(initializer.create())).parameters
    if not takes_seed or "seed" in initializer.arguments:
        return initializer
    return Initializer(initializer.name, **initializer.arguments, seed=seed)


def _arguments(call: ast.Call) -> dict[str, Any]:
    if call.args:
        raise UsageError(f"arguments have names, as in scale=2.0, got {shorten(ast.unparse(call.args[0]))}")
    values = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg is not None}
    return {name: plain_argument(value, name) for name, value in values.items()}
