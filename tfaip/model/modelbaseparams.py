"""Params of a model; needs no backend."""

from typing import Any

from tfaip.params import ParamsBase
from tfaip.params.classes import implementation
from tfaip.util.classes import construct


class ModelBaseParams(ParamsBase):
    """Hyper-parameters of a model.

    A subclass names its model and its graph by strings, so that params import no backend:
    `class MyParams(ModelBaseParams, cls=".model:MyModel", graph_cls=".model:MyGraph")`. Where the graph depends on
    the params, it overrides `graph_cls` instead.
    """

    def __init_subclass__(params_cls, *, graph_cls: str | None = None, **kwargs: Any) -> None:  # noqa: N804
        super().__init_subclass__(**kwargs)
        if graph_cls is not None:
            params_cls.graph_cls = implementation(params_cls, graph_cls)  # type: ignore[method-assign]

    @staticmethod
    def cls() -> type[Any]:
        """Return the `ModelBase` subclass that these params describe."""
        raise NotImplementedError("override cls() of the model params and return your ModelBase subclass")

    def graph_cls(self) -> type[Any]:
        """Return the graph class, which may depend on the params."""
        raise NotImplementedError("override graph_cls() of the model params and return your GraphBase subclass")

    def create(self, **kwargs: Any) -> Any:
        """Build the model."""
        return construct(self.cls(), self, **kwargs)

    def create_graph(self, **kwargs: Any) -> Any:
        """Build the graph (a `keras.layers.Layer`)."""
        return construct(self.graph_cls(), self, **kwargs)
