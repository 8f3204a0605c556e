"""Type aliases shared by the whole toolkit."""

from __future__ import annotations

from typing import Any, TypeAlias

# A tensor of the active backend (or a NumPy array, or a symbolic KerasTensor): backends share no base class.
Tensor: TypeAlias = Any
TensorDict: TypeAlias = dict[str, Tensor]
Logs: TypeAlias = dict[str, float]
