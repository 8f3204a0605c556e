"""Names that are almost those of hooks: a line or a refusal when the class is made, and no false alarm."""

import logging
from typing import Any

import pytest

from tfaip import Data, Evaluator, Generator, Processor, Sample
from tfaip.imports import ModelBase, ScenarioBase


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

    class Counting(Evaluator):
        results: list[int] = []

    assert caplog.messages == []
    assert Fields(2, generator="b").generator == "b"
    assert Counting().results == []
