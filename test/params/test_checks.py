"""What params hold is checked: limits, types, and what a file would give back; differences of trees."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Tuple  # noqa: UP035

import numpy as np
import pytest

from test.params.cli_params import PromptedParams
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option, post_init
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import FieldError, Limits, check_fields
from tfaip.params.resource import Resource
from tfaip.params.settings import conform, prepare, require_readable
from tfaip.params.stored import from_dict
from tfaip.params.tree import Change, diff
from tfaip.params.types import FunctionName
from tfaip.scenario.tutorial.full.scenario import TutorialScenario


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class PartParams(ParamsBase):
    units: int = 8
    rate: float = 0.5


def begin(params: HolderParams) -> None:
    prepare(params, "holder")
    require_readable(params, HolderParams, "holder")


class HolderParams(ParamsBase):
    epochs: int = 3
    scale: float = 1.0
    eager: bool = False
    name: str = "n"
    shape: Tuple[int, int, int] = (1, 2, 3)  # noqa: UP006
    rates: dict[str, float] = {}
    sizes: list[int] = []
    either: float | bool = 0.5
    color: Color = Color.RED
    file: Resource | None = None
    directory: Path | None = None
    function: FunctionName = FunctionName("")
    anything: Any = None
    part: PartParams = PartParams()
    near: PartParams = option(PartParams(), mode="ssnake")
    parts: list[PartParams] = []
    hidden: int = option(0, mode="ignore")
    late: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.epochs < 0:
            raise ValueError("epochs is negative")


class MisfitParams(ParamsBase):
    masking: int = False
    extra: Tuple[int, int] = (4, 0.3)  # type: ignore[assignment]  # noqa: UP006


def test_a_default_of_the_class_need_not_fit_its_type() -> None:
    params = MisfitParams()
    prepare(params, "misfit")
    require_readable(params, MisfitParams, "misfit")
    assert MisfitParams.from_json(params.to_json()) == params == MisfitParams(False, (4, 0.3))  # type: ignore[arg-type]
    params.extra = (4, 0.4)  # type: ignore[assignment]
    with pytest.raises(UsageError, match="misfit.extra"):
        prepare(params, "misfit")
    with pytest.raises(UsageError, match=r"extra.*0\.4"):
        MisfitParams.from_dict({"extra": [4, 0.4]})


class NumberedParams(ParamsBase):
    names: dict[str, str] = {0: "a"}  # type: ignore[dict-item]


def test_a_default_of_the_class_stays_although_a_file_would_give_another() -> None:
    params = NumberedParams()
    prepare(params, "numbered")
    assert params.names == {0: "a"}
    params.names = {1: "a"}  # type: ignore[dict-item]
    with pytest.raises(UsageError, match="numbered.names is {1: 'a'}, but would be read from a file as {'1': 'a'}"):
        prepare(params, "numbered")


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("scale", 2, 2.0),
        ("scale", np.float64(0.25), 0.25),
        ("epochs", 4.0, 4),
        ("eager", 1, True),
        ("either", 1, 1.0),
        ("shape", [4, 1.0, 0], (4, 1, 0)),
        ("rates", {"ctc": 1}, {"ctc": 1.0}),
        ("sizes", (1, 2), [1, 2]),
        ("color", "BLUE", Color.BLUE),
        ("name", Path("a") / "b", "a/b"),
        ("file", "/a/b", Resource("/a/b")),
        ("function", "math:sqrt", FunctionName("math:sqrt")),
        ("anything", (1, [2.5, "x"]), [1, [2.5, "x"]]),
    ],
)
def test_what_a_type_can_hold_without_loss_is_converted(name: str, given: Any, kept: Any) -> None:
    params = HolderParams()
    setattr(params, name, given)
    sizes, params.near.rate = params.sizes, math.nan
    conform(params, "holder")
    value = getattr(params, name)
    assert (type(value), value) == (type(kept), kept)
    assert params.sizes is sizes or name == "sizes"  # what fits stays the same object
    require_readable(params, HolderParams, "holder")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("function", "math:nothing", "--holder.function is 'math:nothing', expected a function that module math has"),
        ("near.units", "x", "--near.units: expected int, got 'x'"),
        ("parts", [PartParams(units=None)], "--holder.parts.0.units: expected int, got None"),  # type: ignore[arg-type]
        ("part", PartParams, "--holder.part: expected PartParams, got <class 'test.params.test_checks.PartParams'>"),
        ("parts", [PartParams], "--holder.parts: expected list[PartParams], got [<class"),
        ("hidden", "x", "holder.hidden: expected int, got 'x'"),
        ("anything", Color.RED, "--holder.anything is <Color.RED: 'red'>, but would be read from a file as 'red'"),
        ("anything", {1: 2}, "--holder.anything is {1: 2}, but would be read from a file as {'1': 2}"),
        ("epochs", -1, "--holder.*: epochs is negative"),
    ],
)
def test_a_value_of_a_wrong_type_is_named_with_its_flag(path: str, value: Any, message: str) -> None:
    params = HolderParams()
    *nodes, name = path.split(".")
    setattr(getattr(params, nodes[0]) if nodes else params, name, value)
    with pytest.raises(UsageError) as error:
        begin(params)
    assert str(error.value).startswith(message)


def test_what_no_file_can_hold() -> None:
    params = HolderParams(anything=10**5000)
    with pytest.raises(UsageError, match=r"anything: expected an int of at most 64 bits, got <integer of 16610 bits>$"):
        require_readable(params, HolderParams, "holder")
    params = HolderParams(anything=[np.zeros(2)])
    conform(params, "holder")  # it may be trained with
    with pytest.raises(UsageError, match=r"^holder\.anything\.0 is a numpy\.ndarray, which params cannot store"):
        require_readable(params, HolderParams, "holder")
    with pytest.raises(UsageError, match="is not a params class derived from PartParams"):
        require_readable(HolderParams(), PartParams, "holder")


def test_a_required_value_must_not_be_empty_in_python_either() -> None:
    conform(PromptedParams(text="a", words=["a"]), "holder")
    for params, name in [(PromptedParams(words=["a"]), "text"), (PromptedParams("a"), "words")]:
        with pytest.raises(UsageError, match=f"^--holder.{name} is required, and empty: give it a value$"):
            conform(params, "holder")


@dataclass
class Leafy:
    """A dataclass that is not ours: a node as well."""

    x: int = 1
    y: float = 0.5


@dataclass
class Special(Leafy):
    z: int = 3


@dataclass
class Tree(ParamsBase):
    numbers: list[int] = field(default_factory=lambda: [1, 2])
    one: Leafy = field(default_factory=Leafy)
    many: list[Leafy] = field(default_factory=lambda: [Leafy(), Special(x=5)])
    by_key: dict[Any, Leafy] = field(default_factory=lambda: {"a": Leafy(), 2: Leafy(y=9)})
    maybe: Leafy | None = None


def test_diff() -> None:
    old, new = Tree(), Tree()
    new.numbers, new.one, new.maybe, new.by_key["a"].y = [1], Special(x=2), Leafy(), math.inf
    new.many.pop()
    assert [change.text(change.path) for change in diff(old, new)] == [
        "numbers: [1, 2] -> [1]",
        *("one: Leafy -> Special", "one.x: 1 -> 2", "one.z: (absent) -> 3"),
        *("many.1: Special -> (absent)", "many.1.x: 5 -> (absent)", "many.1.y: 0.5 -> (absent)"),
        *("many.1.z: 3 -> (absent)", "by_key.a.y: 0.5 -> inf"),
        *("maybe: None -> Leafy", "maybe.x: (absent) -> 1", "maybe.y: (absent) -> 0.5"),
    ]
    old.one.y = math.nan
    assert diff(old, copy.deepcopy(old)) == []
    assert diff([1.0, math.nan], [1.0, float("nan")]) == []
    assert diff([1.0, math.nan], [2.0, math.nan]) != []
    assert [change.path for change in diff(Tree(many=[]), Tree(many=[Leafy()]))] == ["many.0", "many.0.x", "many.0.y"]
    assert diff(Leafy(x=True), Leafy(x=1)) == [Change("x", True, 1)]


TRAINER = TutorialScenario.trainer_params_cls()
GROUP = "--optimizer.groups OptimizerGroup OptimizerGroup --optimizer.groups.0.match a --optimizer.groups.1.match b "


def parsed(line: str) -> Any:
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TRAINER)
    return parser.parse(["--trainer.output_dir", "run", *line.split()]).trainer


def test_what_is_refused_has_the_flag_or_its_place_in_a_file(tmp_path: Path) -> None:
    momentum = "--optimizer.groups.1.optimizer SGD --optimizer.groups.1.optimizer.momentum"
    config = tmp_path / "conf.yaml"
    config.write_text("optimizer: {clip_norm: -1.0}\n")
    for line, message, flag in [
        ("--trainer.profile_steps 0 1", "profile_steps[0] is 0, expected at least 1", "--trainer.profile_steps"),
        (f"{GROUP}{momentum} 1.5", "momentum is 1.5, expected a number", momentum.split()[-1]),
        ("--learning_rate.min_lr 1", "min_lr is 1.0, expected at most lr (0.001)", "--learning_rate.min_lr or --l"),
        (f"--config {config}", "clip_norm is -1.0", "optimizer.clip_norm in /"),
    ]:
        with pytest.raises(UsageError) as caught:
            parsed(line)
        assert str(caught.value).startswith(message)
        assert f": change {flag}" in str(caught.value)
    stored = parsed(GROUP).to_dict()
    stored["optimizer"]["groups"][1]["lr_factor"] = -1.0
    with pytest.raises(UsageError, match=r"optimizer\.groups\.1\.lr_factor is -1.0, expected at least 0$"):
        from_dict(TRAINER, stored, trusted=["tfaip"])


def test_what_changed_after_the_constructor() -> None:
    params = parsed("--data.pre_proc.processors Normalize RandomShift")
    params.scenario.data.pre_proc.processors[1].share = 2.0
    with pytest.raises(FieldError, match=r"^scenario\.data\.pre_proc\.processors\.1\.share is "):
        post_init(params)
    with pytest.raises(FieldError, match=r"^share is .*: change --data\.pre_proc\.processors\.1\.share$"):
        prepare(params, "trainer")


class OwnParams(ParamsBase):
    share: float = option(0.5, "A share", low=0, below=1)
    size: int | None = option(8, low=1, also={-1: "all"})
    kind: str = option("a", choices=["a", "b"])
    sizes: dict[str, int] = option({}, high=3)
    any_number: float = option(0.0, finite=True)
    ratio: float = option(1.0, above=0)
    computed: int = field(init=False, metadata={"limits": Limits(low=1)})


class WithoutBase(OwnParams):
    def __post_init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (OwnParams, {"share": 1.0}, "share is 1.0, expected a number in [0, 1)"),
        (OwnParams, {"share": math.nan}, "share is nan, expected a finite number in [0, 1)"),
        (OwnParams, {"size": 0}, "size is 0, expected at least 1, or -1 for all, or None"),
        (OwnParams, {"ratio": 0}, "ratio is 0, expected a number above 0"),
        (OwnParams, {"kind": "c"}, "kind is 'c', expected one of a, b"),
        (OwnParams, {"sizes": {"x": 1, "y": 4}}, "sizes['y'] is 4, expected at most 3"),
        (OwnParams, {"any_number": math.inf}, "any_number is inf, expected a finite number"),
    ],
)
def test_messages(cls: type[OwnParams], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        cls(**fields)
    assert str(caught.value) == message


def test_values_that_are_allowed_and_one_that_is_set_later() -> None:
    assert OwnParams(share=0, size=None, kind="b", sizes={"x": -5}).size is None
    assert OwnParams(size=-1).size == -1
    params = OwnParams()
    params.computed = 0
    with pytest.raises(FieldError, match="computed is 0, expected at least 1"):
        check_fields(params)
    # A tree is checked even if a class does not call the inherited method.
    params = WithoutBase(share=3)
    params.computed = 1
    with pytest.raises(FieldError, match="share is 3"):
        post_init(params)
