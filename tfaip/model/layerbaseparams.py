"""Params of a configurable layer; needs no backend."""

from typing import Any

from tfaip.model.keras_objects import Initializer, Regularizer
from tfaip.params import ParamsBase, option
from tfaip.util.classes import construct


class LayerBaseParams(ParamsBase):
    """Params of one layer; `create()` builds it. Names of Keras are accepted as initializers and regularizers.

    A subclass names its layer by a string: `class MyParams(LayerBaseParams, cls=".layers:MyLayer")`.
    """

    kernel_initializer: Initializer = option(Initializer("glorot_uniform"), "Initializer of the kernel")
    bias_initializer: Initializer = option(Initializer("zeros"), "Initializer of the bias")
    kernel_regularizer: Regularizer | None = option(None, "Regularizer of the kernel (None: none)")

    @staticmethod
    def cls() -> type[Any]:
        """Return the `LayerBase` subclass that these params describe."""
        raise NotImplementedError("override cls() of the layer params and return your LayerBase subclass")

    def create(self, **kwargs: Any) -> Any:
        """Build the layer."""
        return construct(self.cls(), self, **kwargs)
