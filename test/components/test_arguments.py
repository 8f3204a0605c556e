"""Constructors that ask for the data, and hooks that give further arguments."""

from __future__ import annotations

from typing import Any

import pytest

from test.components.hooks import HookEvaluator, HookEvaluatorParams
from test.trainer.line import LineData, LineGraph, LineModel, LineScenario


class SizedModel(LineModel):
    def __init__(self, params: Any, size: int = 0) -> None:
        super().__init__(params)
        self.size = size


def test_hooks_for_arguments_get_what_they_name() -> None:
    seen: dict[str, Any] = {}

    class Graph(LineGraph):
        def __init__(self, params: Any, text: str, **kwargs: Any) -> None:
            super().__init__(params, **kwargs)
            seen["graph"] = text

    class Model(SizedModel):
        def root_graph_cls(self) -> Any:
            return Graph

    class Data(LineData):
        def __init__(self, params: Any, a: int, b: int) -> None:
            super().__init__(params)
            self.sum = a + b

    class Evaluator(HookEvaluator):
        def __init__(self, params: Any, size: int) -> None:
            super().__init__(params)
            seen["evaluator"] = size

    class Scenario(LineScenario):
        data_cls = classmethod(lambda cls: Data)
        model_cls = classmethod(lambda cls: Model)
        evaluator_cls = classmethod(lambda cls: Evaluator)

        @classmethod
        def static_data_kwargs(cls, scenario_params: Any) -> dict[str, int]:
            return {"a": scenario_params.print_eval_limit}

        @classmethod
        def additional_data_kwargs(cls, params: Any, data_params: Any, none: int = 4) -> dict[str, int]:
            assert params is data_params
            return {"b": none}

        @classmethod
        def static_model_kwargs(cls, data: Any, scenario_params: Any) -> dict[str, int]:
            return {"size": data.sum}

        @classmethod
        def additional_graph_kwargs(cls, data: Any, scenario_params: Any) -> dict[str, str]:
            return {"text": f"{data.sum} {scenario_params.model.loss}"}

        @classmethod
        def additional_evaluator_kwargs(cls, data: Any, **others: Any) -> dict[str, int]:
            assert others["evaluator_params"] == HookEvaluatorParams()
            return {"size": data.sum}

    scenario = Scenario(Scenario.default_params())
    assert scenario.graph.name == "graph"
    scenario.new_evaluator()
    assert (scenario.model.size, seen) == (14, {"graph": "14 output", "evaluator": 14})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "hook", [staticmethod(lambda scenario_params, data: {"size": 3}), lambda self, *, other=3: {"size": other}]
)
def test_hooks_for_arguments_may_take_them_in_any_form(hook: Any) -> None:
    members = {"additional_model_kwargs": hook, "model_cls": classmethod(lambda cls: SizedModel)}
    scenario: Any = type("Scenario", (LineScenario,), members)(LineScenario.default_params())
    assert scenario.model.size == 3


@pytest.mark.parametrize(
    ("hook", "message"),
    [
        (lambda self, graph: {}, "missing 1 required positional argument: 'graph'"),
        (lambda self, data: [("size", 3)], "Scenario.additional_model_kwargs gave .*, expected a dict of arguments"),
    ],
)
def test_hooks_for_arguments_that_cannot_work(hook: Any, message: str) -> None:
    scenario_cls: Any = type("Scenario", (LineScenario,), {"additional_model_kwargs": hook})
    with pytest.raises(TypeError, match=message):
        _ = scenario_cls(LineScenario.default_params()).model
