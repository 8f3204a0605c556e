"""Numbers of the author of a model that schedules may change."""

from __future__ import annotations

from collections.abc import MutableMapping

from tfaip.backend.keras_private.numbers import NumberVariable


def new_scheduled_value(known: MutableMapping[str, NumberVariable], name: str, value: float) -> NumberVariable:
    """Return a variable for a number, and add it to the known ones.

    Args:
        known: the numbers of the same layer or model by name.
        name: of the number.
        value: without a schedule.

    Raises:
        ValueError: if the name is known, or is not an identifier.
    """
    if not name.isidentifier():
        raise ValueError(f"scheduled({name!r}): expected a name of letters, digits and underscores")
    if name in known:
        raise ValueError(f"scheduled({name!r}) was called twice: keep what the first call returned")
    known[name] = NumberVariable(float(value), name=name, autocast=True)
    return known[name]
