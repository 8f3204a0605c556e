"""Type aliases shared by the whole toolkit."""

from __future__ import annotations

from typing import Any, TypeAlias

# A tensor of the active backend, a NumPy array, or a KerasTensor: backends share no base class.
Tensor: TypeAlias = Any
TensorDict: TypeAlias = dict[str, Tensor]
Logs: TypeAlias = dict[str, float]
# Inputs and targets of a batch by name.
Element: TypeAlias = tuple[TensorDict, TensorDict]
