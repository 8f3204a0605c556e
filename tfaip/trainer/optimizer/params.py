"""Base of the params of all optimizers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta

if TYPE_CHECKING:
    import keras


@pai_dataclass
@dataclass
class OptimizerParams(ParamsBase):
    """An optimizer. Order on the gradients of an update: clip_value, clip_norm, clip_global_norm, then weight decay."""

    clip_value: float | None = field(
        default=None, metadata=pai_meta(help="Clip each gradient element to [-clip_value, clip_value]")
    )
    clip_norm: float | None = field(
        default=None, metadata=pai_meta(help="Clip the norm of the gradient of each variable")
    )
    clip_global_norm: float | None = field(
        default=None, metadata=pai_meta(help="Clip the norm of the gradients of all variables together")
    )
    weight_decay: float = field(
        default=0.0,
        metadata=pai_meta(help="Decoupled weight decay: weights shrink by rate * weight_decay per update"),
    )
    exclude_from_weight_decay: str | None = field(
        default=None,
        metadata=pai_meta(help="Regex on weight paths that are not decayed, e.g. 'bias|gamma|beta'"),
    )

    def __post_init__(self) -> None:
        for name in ("clip_value", "clip_norm", "clip_global_norm"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} {value} is not above 0: change --optimizer.{name}, or None for no clipping")
        if not self.weight_decay >= 0:
            raise ValueError(f"weight_decay {self.weight_decay} is below 0: change --optimizer.weight_decay")
        try:
            re.compile(self.exclude_from_weight_decay or "")
        except re.error as error:
            raise ValueError(
                f"{self.exclude_from_weight_decay!r} is not a regular expression ({error}): "
                "change --optimizer.exclude_from_weight_decay"
            ) from error

    def cls(self) -> type[keras.optimizers.Optimizer]:
        """The Keras optimizer class."""
        raise NotImplementedError(f"{type(self).__name__} does not implement cls()")

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments of the Keras class, without rate, clipping and weight decay."""
        return {}
