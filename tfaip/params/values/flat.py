"""Stored params as one dict of dotted paths, to compare them."""

from __future__ import annotations

from typing import Any


def flat_params(value: Any, path: str = "") -> dict[str, Any]:
    """Return stored params as dotted path -> value; a list without params in it is a value."""
    if isinstance(value, dict):
        parts: dict[Any, Any] = value
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        parts = dict(enumerate(value))
    else:
        return {path: value}
    flat: dict[str, Any] = {}
    for name, item in parts.items():
        below = f"{path}.{name}" if path else str(name)
        flat.update(flat_params(item, below))
    return flat
