"""Limits of fields: numbers at their ends, and the flag of what is refused."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_meta, post_init
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import FieldAdvice, FieldError, Limits, check_fields, limits
from tfaip.params.resolver import Entry, Resolver, walk_entries
from tfaip.params.settings import flags_of, prepare
from tfaip.params.sources import Settings
from tfaip.params.stored import from_dict, to_dict
from tfaip.params.tree import get_path
from tfaip.predict.params import LAVParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario


def nearest_refused(declared: Limits, is_int: bool) -> float:
    """Return the number next to the first end of the allowed ones."""

    def after(number: float, direction: float) -> float:
        if is_int:
            return number + int(math.copysign(1, direction))
        return math.nextafter(number, direction)

    for closed, opened, outwards in (
        (declared.low, declared.above, -math.inf),
        (declared.high, declared.below, math.inf),
    ):
        if opened is not None:
            return opened
        if closed is not None:
            number = after(closed, outwards)
            return after(number, outwards) if number in declared.also else number
    return math.nan


TRAINER = TutorialScenario.trainer_params_cls()
OUTPUT = ["--trainer.output_dir", "run"]
GROUP = ["--optimizer.groups", "OptimizerGroup", "OptimizerGroup", "--optimizer.groups.0.match", "a"]
GROUP += ["--optimizer.groups.1.match", "b"]
PROCESSORS = ["--data.pre_proc.processors", "Normalize", "RandomShift"]
COMPOSED = ["--data.pre_proc", "Composed", "--data.pre_proc.pipelines", "SequentialProcessorPipeline"]


TREES = [[], GROUP, PROCESSORS, COMPOSED, [*GROUP, "--optimizer.groups.1.optimizer", "SGD"]]
TREES += [["--optimizer", "RMSprop"], ["--learning_rate", "NewbobRel"], ["--learning_rate.modulation", "Cyclic"]]


def leaves(root: str, cls: type, flags: list[str]) -> list[Entry]:
    """Return the entries with limited numbers of a tree, as far as its classes are chosen."""
    tree = Resolver(Settings()).root(root, cls, parsed(root, cls, flags))
    found = [entry for entry in walk_entries(tree) if entry.kind == "leaf" and "limits" in entry.meta]
    return [leaf for leaf in found if leaf.meta["limits"].has_ends]


def parsed(root: str, cls: type, flags: list[str]) -> Any:
    parser = ParamsParser(prog="test")
    parser.add_params(root, cls)
    return getattr(parser.parse(flags), root)


@cache
def usual_flags() -> frozenset[str]:
    return frozenset(leaf.flag for leaf in leaves("trainer", TRAINER, OUTPUT))


def refused(root: str, cls: type, flags: list[str], leaf: Entry) -> str:
    """Return what the parser says about the nearest refused number of a leaf."""
    type_ = str(leaf.declared)
    number = repr(nearest_refused(leaf.meta["limits"], is_int="float" not in type_))
    if "dict" in type_ and "list" not in type_:
        number = f"1={number}"
    with pytest.raises(UsageError) as caught:
        parsed(root, cls, [*flags, f"--{leaf.flag}", *[number] * (2 if leaf.name == "profile_steps" else 1)])
    return str(caught.value)


def test_flags_of_a_training(subtests: pytest.Subtests) -> None:
    for flags in TREES:
        with subtests.test(flags=flags):
            usual = usual_flags() if flags else frozenset()
            found = [leaf for leaf in leaves("trainer", TRAINER, [*OUTPUT, *flags]) if leaf.flag not in usual]
            for leaf in found:
                message = refused("trainer", TRAINER, [*OUTPUT, *flags], leaf)
                assert re.match(rf"{leaf.name}(\[.*\])? is .*, expected ", message), message
                assert message.endswith(f": change --{leaf.flag}")
                assert len(message) <= 300
            if flags in (GROUP, PROCESSORS, COMPOSED):
                assert found


def test_a_value_of_a_config_file_names_the_file(tmp_path: Path) -> None:
    config = tmp_path / "conf.yaml"
    config.write_text("optimizer: {clip_norm: -1.0}\n")
    with pytest.raises(UsageError, match=rf": change optimizer.clip_norm in .*{config.name}$"):
        parsed("trainer", TRAINER, [*OUTPUT, "--config", str(config)])


def test_a_stored_value_has_its_place_in_the_file() -> None:
    stored = to_dict(parsed("trainer", TRAINER, [*OUTPUT, *GROUP]))
    stored["optimizer"]["groups"][1]["lr_factor"] = -1.0
    with pytest.raises(UsageError, match=r"optimizer\.groups\.1\.lr_factor is -1.0, expected at least 0$"):
        from_dict(TRAINER, stored, trusted=["tfaip"])


def test_what_changed_after_the_constructor(subtests: pytest.Subtests) -> None:
    for path, value, flag in [
        ("epochs", 0, "--trainer.epochs"),
        ("gen.setup.val.batch_size", 0, "--val.batch_size"),
        ("optimizer.groups.1.lr_factor", -1.0, "--optimizer.groups.1.lr_factor"),
        ("optimizer.gradient_noise.gamma", -1.0, "--optimizer.gradient_noise.gamma"),
        ("scenario.data.pre_proc.processors.1.share", 2.0, "--data.pre_proc.processors.1.share"),
        ("early_stopping.best_model_name", "train", "--early_stopping.best_model_name"),
        ("learning_rate.rates", {7: 0.1, 200: 0.1}, "--learning_rate.rates"),
    ]:
        with subtests.test(path=path):
            params = parsed("trainer", TRAINER, [*OUTPUT, *GROUP, *PROCESSORS])
            parent, _, name = path.rpartition(".")
            setattr(get_path(params, parent), name, value)
            with pytest.raises(FieldError) as caught:
                post_init(params)
            assert str(caught.value).startswith(f"{path} is ")
            with pytest.raises(FieldError, match=rf"^{path.rpartition('.')[2]} is .*: change {flag}$"):
                prepare(params, "trainer")


def test_two_fields_that_could_be_changed() -> None:
    with pytest.raises(UsageError, match=": change --learning_rate.min_lr or --learning_rate.lr$"):
        parsed("trainer", TRAINER, [*OUTPUT, "--learning_rate.min_lr", "1"])


class OwnParams(ParamsBase):
    share: float = field(default=0.5, metadata=pai_meta(help="A share") | limits(low=0, below=1))
    size: int | None = field(default=8, metadata=limits(low=1, also={-1: "all"}))
    kind: str = field(default="a", metadata=limits(choices=["a", "b"]))
    sizes: dict[str, int] = field(default_factory=dict, metadata=limits(high=3))
    any_number: float = field(default=0.0, metadata=limits(finite=True))
    computed: int = field(init=False, metadata=limits(low=1))


class WithoutBase(OwnParams):
    def __post_init__(self) -> None:
        pass


def test_messages(subtests: pytest.Subtests) -> None:
    for fields, message in [
        ({"share": 1.0}, "share is 1.0, expected a number in [0, 1)"),
        ({"share": math.nextafter(0.0, -1.0)}, "share is -5e-324, expected a number in [0, 1)"),
        ({"share": math.nan}, "share is nan, expected a finite number in [0, 1)"),
        ({"share": "half"}, "share is 'half', expected a number in [0, 1)"),
        ({"share": None}, "share is None, expected a number in [0, 1)"),
        ({"size": 0}, "size is 0, expected at least 1, or -1 for all, or None"),
        ({"size": -math.inf}, "size is -inf, expected a finite number, at least 1, or -1 for all, or None"),
        ({"kind": "c"}, "kind is 'c', expected one of a, b"),
        ({"sizes": {"x": 1, "y": 4}}, "sizes['y'] is 4, expected at most 3"),
        ({"any_number": math.inf}, "any_number is inf, expected a finite number"),
        ({"any_number": "x" * 1000}, f"any_number is '{'x' * 50}"),
    ]:
        with subtests.test(fields=fields):
            with pytest.raises(FieldError) as caught:
                OwnParams(**fields)
            assert str(caught.value).startswith(message)
            assert message.startswith("any_number is 'x") or str(caught.value) == message


def test_values_that_are_allowed() -> None:
    assert OwnParams(share=0, size=None, kind="b", sizes={"x": -5}).size is None
    assert OwnParams(size=-1).size == -1
    assert OwnParams(share=math.nextafter(1.0, 0.0), size=1, sizes={"x": 3}).size == 1
    assert OwnParams(any_number=10**400).any_number == 10**400  # refused where the types are checked
    params = OwnParams()
    params.computed = 0
    with pytest.raises(FieldError, match="computed is 0, expected at least 1"):
        check_fields(params)


def test_a_subclass_keeps_the_limits_of_a_field_that_it_declares_again() -> None:
    @dataclass
    class Again(OwnParams):
        share: float = 0.9
        size: int | None = field(default=4, metadata=limits(low=4))

    with pytest.raises(FieldError, match="share is 2"):
        Again(share=2)
    with pytest.raises(FieldError, match="size is 3, expected at least 4"):
        Again(size=3)


def test_a_tree_is_checked_even_if_a_class_does_not_call_the_inherited_method() -> None:
    params = WithoutBase(share=3)
    params.computed = 1
    with pytest.raises(FieldError, match="share is 3"):
        post_init(params)


def test_an_error_gets_its_path_and_its_flags_from_above() -> None:
    error = FieldError("a", 1, "2", index="k", others=["b"])
    error.move_below("node")
    again = copy.copy(error)
    assert str(again) == str(error) == "node.a['k'] is 1, expected 2"
    again.flags = ["--node.a", "--node.b"]
    assert str(again) == "a['k'] is 1, expected 2: change --node.a or --node.b"


def test_a_text_of_its_own_names_fields_and_later_their_flags() -> None:
    error = FieldAdvice("{a} 'x' fits nothing: change {a} or set {b.c} 2", "a", "b.c")
    error.move_below("node")
    again = copy.copy(error)
    assert str(again) == str(error) == "node.a 'x' fits nothing: change node.a or set node.b.c 2"
    again.flags = ["--a"]
    assert str(again) == "--a 'x' fits nothing: change --a or set node.b.c 2"


def test_an_error_of_an_object_outside_of_the_tree_keeps_its_path() -> None:
    message = "^list_ratios is 1, expected 2: change list_ratios$"
    with pytest.raises(FieldError, match=message), flags_of(LAVParams(), "lav"):
        raise FieldError("list_ratios", 1, "2")
