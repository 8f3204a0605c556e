"""Params of a configurable layer; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tfaip.params import ParamsBase, pai_dataclass, pai_meta


@pai_dataclass
@dataclass
class LayerBaseParams(ParamsBase):
    """Params of one layer; `create()` builds it. Initializers and regularizers are names of Keras.

    A subclass names its layer by a string: `class MyParams(LayerBaseParams, cls=".layers:MyLayer")`.
    """

    kernel_initializer: str = field(
        default="glorot_uniform", metadata=pai_meta(help="Initializer of the kernel, a name of keras.initializers")
    )
    bias_initializer: str = field(
        default="zeros", metadata=pai_meta(help="Initializer of the bias, a name of keras.initializers")
    )
    kernel_regularizer: str | None = field(
        default=None,
        metadata=pai_meta(help="Regularizer of the kernel, a name of keras.regularizers (None: none)"),
    )

    @staticmethod
    def cls() -> type[Any]:
        """Return the `LayerBase` subclass that these params describe."""
        raise NotImplementedError("override cls() of the layer params and return your LayerBase subclass")

    def create(self, **kwargs: Any) -> Any:
        """Build the layer."""
        return self.cls()(self, **kwargs)
