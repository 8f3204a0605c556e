"""Type aliases shared by the whole toolkit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from tfaip.util.oldnames import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

# A tensor of the active backend, a NumPy array, or a KerasTensor: backends share no base class.
Tensor: TypeAlias = Any
TensorDict: TypeAlias = dict[str, Tensor]
Logs: TypeAlias = dict[str, float]
# Inputs and targets of a batch by name; for several devices a third part, see `tfaip.backend.kerastools`.
Element: TypeAlias = tuple[TensorDict, ...]
