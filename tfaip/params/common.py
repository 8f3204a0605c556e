"""Mark of the options that most users set: `option(..., common=True)`.

`--help` shows them, and those that the scenario itself declares; the rest on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEY = "common"
COMMON = {_KEY: True}


def is_common(meta: Mapping[str, Any]) -> bool:
    """Return True if the metadata of a field have the mark."""
    return bool(meta.get(_KEY))
