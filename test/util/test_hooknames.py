"""Names that are almost those of hooks: a line or a refusal when the class is made, and no false alarm."""

import logging
from collections.abc import Collection
from typing import Any

import pytest

from tfaip import Data, Evaluator, Generator, Processor, Sample
from tfaip.components import scenario as components
from tfaip.data import data
from tfaip.data.pipeline import datagenerator
from tfaip.data.pipeline.processor import dataprocessor
from tfaip.evaluator import evaluator
from tfaip.imports import DataBase, DataGenerator, ModelBase, ScenarioBase
from tfaip.model import graphbase, modelbase
from tfaip.scenario.declared import NAMES

HOOKS: list[tuple[type, Collection[str]]] = [
    (components.ScenarioComponents, (*components._HOOKS, *NAMES)),
    (DataBase, (*data._HOOKS, *data._DECLARED)),
    (DataGenerator, datagenerator._HOOKS),
    (dataprocessor.MappingDataProcessor, dataprocessor._MAPPING_HOOKS),
    (modelbase.ModelBase, modelbase._HOOKS),
    (graphbase.GenericGraphBase, graphbase._HOOKS),
    (evaluator.EvaluatorBase, evaluator._HOOKS),
]


def method(*args: Any) -> Any:
    """A method of a class that a test makes."""


@pytest.mark.parametrize(
    ("base", "name", "hook"),
    [
        (ScenarioBase, "additional_graph_kwarg", "additional_graph_kwargs"),
        (Data, "lenght_of", "length_of"),
        (Generator, "yield_batches", "yields_batches"),
        (Processor, "support_preload", "supports_preload"),
        (ModelBase, "metircs", "metrics"),
        (ModelBase, "sample_weights", "_sample_weights"),
        (Evaluator, "__entr__", "__enter__"),
    ],
)
def test_a_name_near_to_a_hook_is_a_line(base: type, name: str, hook: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        made = type("Mine", (base,), {name: method})
    line = f"Mine.{name} is no hook; did you mean {hook}? If it is something of your own, the class may say so: "
    assert caplog.messages == [f"{line}not_hooks = ('{name}',)"]
    # A class that overrides it, has the hook itself, or says that it is its own, gets none.
    caplog.clear()
    type("Lower", (made,), {name: method})
    type("Both", (base,), {name: method, hook: vars(base).get(hook, method)})
    type("Own", (base,), {name: method, "not_hooks": (name,)})
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("base", "name", "hook", "instead"),
    [
        (ModelBase, "build_modle", "build_model", "_loss"),
        (Generator, "__getitm__", "__getitem__", "generate"),
        (Processor, "aply", "apply", "apply"),
    ],
)
def test_a_class_that_cannot_work_without_the_hook_is_refused(
    base: type, name: str, hook: str, instead: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(
        TypeError, match=rf"^Wrong.{name} is never called, and there is no {hook}; did you mean {hook}\?"
    ):
        type("Wrong", (base,), {name: method})
    type("Own", (base,), {name: method, "not_hooks": (name,)})
    good = type("Good", (base,), {instead: method})
    assert caplog.messages == []
    type("Lower", (good,), {name: method})
    (line,) = caplog.messages
    assert line.startswith(f"Lower.{name} is no hook; did you mean {hook}?")


def test_fields_and_names_of_python_are_no_mistakes(caplog: pytest.LogCaptureFixture) -> None:
    class Fields(Generator):
        in_memories: int
        generator: str = "a"
        shuffled: bool = True

        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Sample:
            return Sample(inputs={"x": [index]})

        def __setitem__(self, index: int, value: Sample) -> None:
            pass

    class Counting(Evaluator):
        results: list[int] = []

        def __aenter__(self) -> None:
            pass

    assert caplog.messages == []
    assert Fields(2, generator="b").generator == "b"
    assert Counting().results == []


def test_hooks_exist() -> None:
    # Asked for, and in no base class.
    further = {*NAMES, "__getitem__", "get_batch", "predict_generator_params_cls"}
    further.update(*components.ARGUMENT_HOOKS.values())
    for base, hooks in HOOKS:
        classes = [base]
        for cls in classes:  # which grows
            classes += type.__subclasses__(cls)
        ours = [cls for cls in classes if cls.__module__.startswith("tfaip.")]
        assert [name for name in hooks if not any(hasattr(cls, name) for cls in ours) and name not in further] == []
