"""Equal text means the same on the command line, in YAML and in Python; what a setting leaves as it is."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from test.params.conftest import Write
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_meta
from tfaip.params.codec import Words
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import limits
from tfaip.params.resource import Resource
from tfaip.params.settings import RootParams, apply, check_flags, differences, set_flags
from tfaip.params.sources import Setting


class Padding(Enum):
    NONE = "none"
    SAME = "same"


class PartParams(ParamsBase):
    size: int = field(default=3, metadata=limits(low=1))
    rows: list[int] = []


class OtherPartParams(PartParams):
    rate: float = 0.5


class TextParams(RootParams):
    flag_root = "p"

    whole: int = 1
    number: float = 0.5
    either: float | str = 0.5
    free: dict[str, Any] = {}
    anything: Any = None
    rates: list[float] | dict[int, float] = []
    words: list[str] = []
    text: str = "a"
    name: str | None = "n"
    path: Path | None = None
    vocabulary: Resource | None = None
    flag: bool = False
    pad: Padding | None = Padding.SAME
    what: Literal["none", "all"] | None = "all"
    order: list[Literal["none", "all"] | None] = []
    part: PartParams = PartParams()
    near: PartParams = field(default_factory=PartParams, metadata=pai_meta(mode="ssnake", fix_dc=True))
    maybe: PartParams | None = None
    parts: list[PartParams] = field(default_factory=lambda: [PartParams()])
    again: Any = None
    runs: int = field(default=0, metadata=pai_meta(mode="ignore"))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.runs += 1


def parse(*argv: str) -> Any:
    parser = ParamsParser("tfaip-test")
    parser.add_params("p", TextParams)
    return parser.parse(argv).p


HOME = str(Path.home())


@pytest.mark.parametrize(
    ("name", "yaml", "words", "value"),
    [
        ("number", "1e-3", "1e-3", 0.001),
        ("either", "1e-3", "1e-3", 0.001),
        ("either", "0x1f", "0x1f", "0x1f"),
        ("free", "{rate: 1e-3, on: yes}", "rate=1e-3 on=yes", {"rate": 0.001, "on": "yes"}),
        ("anything", "1e-3", "1e-3", 0.001),
        ("anything", "-.inf", "-.inf", -float("inf")),
        ("anything", "010", "010", "010"),
        ("anything", "1:30", "1:30", "1:30"),
        ("anything", "none", "none", None),
        ("rates", "[1e-3, -2]", "1e-3 -2", [0.001, -2.0]),
        ("rates", "{0: 1e-3}", "0=1e-3", {0: 0.001}),
        ("words", "[-no, -1, 2020-01-02]", "=-no -1 2020-01-02", ["-no", "-1", "2020-01-02"]),
        ("words", "one", "one", ["one"]),
        ("text", "0042", "0042", "0042"),
        ("text", "~/x", "=~/x", f"{HOME}/x"),
        ("path", "~/x", "=~/x", Path(HOME, "x")),
        ("path", '"~/x"', "=~/x", Path(HOME, "x")),
        ("vocabulary", "~/x", "=~/x", Resource(f"{HOME}/x")),
        ("name", "None", "None", None),
        ("path", "null", "null", None),
        ("vocabulary", "None", "None", None),
        ("flag", "on", "on", True),
        ("pad", "none", "none", Padding.NONE),
        ("pad", "NONE", "NONE", Padding.NONE),
        ("pad", "None", "None", None),
        ("what", "none", "none", "none"),
        ("what", "None", "None", None),
        ("order", "[none, all, None]", "none all None", ["none", "all", None]),
        ("parts", "[PartParams]", "PartParams", [PartParams()]),
        ("parts", "PartParams", "PartParams", [PartParams()]),
    ],
)
def test_equal_text_means_the_same_everywhere(write: Write, name: str, yaml: str, words: str, value: Any) -> None:
    first, *rest = words.split()
    argv = [f"--p.{name}{first}", *rest] if first.startswith("=") else [f"--p.{name}", first, *rest]
    params = TextParams()
    set_flags(params, {f"p.{name}": words.removeprefix("=")})
    for found in (parse(*argv), parse("--config", write("a.yaml", f"p: {{{name}: {yaml}}}")), params):
        assert getattr(found, name) == value
        assert type(getattr(found, name)) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("whole", "010", "p.whole: expected int without leading zeros, got '010'"),
        ("number", "-00.5", "p.number: expected float without leading zeros, got '-00.5'"),
        ("whole", "1:30", "p.whole: expected int, got '1:30'"),
        ("number", "1:30", "p.number: expected float, got '1:30'"),
        ("whole", "0x1f", "p.whole: expected int, got '0x1f'"),
        ("flag", "2", "p.flag: expected True or False, got '2'"),
    ],
)
def test_wrong_text_is_wrong_everywhere(write: Write, name: str, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(f"--p.{name}={text}")
    assert str(error.value) == f"--{message}"
    with pytest.raises(UsageError) as error:
        parse("--config", write("a.yaml", f"p: {{{name}: {text}}}"))
    assert str(error.value) == f"a.yaml: {message}"
    with pytest.raises(UsageError) as error:
        check_flags(TextParams(), {f"p.{name}": text})
    assert str(error.value) == f"--{message}"


def test_texts_in_quotes_are_texts_but_may_be_values_too(write: Write) -> None:
    found = parse("--config", write("a.yaml", 'p: {either: "1", anything: "1e-3", number: "1e-3", name: "None"}'))
    assert (found.either, found.anything, found.number, found.name) == ("1", "1e-3", 0.001, "None")


@pytest.mark.parametrize("name", ["p", "p.part", "p.parts", "p.free", "near"])
def test_a_section_without_keys_sets_nothing(write: Write, name: str) -> None:
    plain = TextParams()
    found = parse("--config", write("a.yaml", f"{name}:\n#  size: 3\np.maybe: PartParams"))
    assert (found.part, found.parts, found.free, found.near) == (plain.part, plain.parts, {}, plain.near)
    assert found.maybe == PartParams()
    with pytest.raises(UsageError, match=r"p\.part cannot be None"):
        parse("--p.part", "None")


def test_merge_keys(write: Write) -> None:
    text = (
        "p.part: &a {size: 4, rows: [1]}\nnear: {<<: *a, size: 5}\np.maybe: {__cls__: PartParams, <<: [{size: 6}, *a]}"
    )
    found = parse("--config", write("a.yaml", text))
    assert (found.near, found.maybe) == (PartParams(5, [1]), PartParams(6, [1]))
    with pytest.raises(UsageError, match="line 1, column 14: expected one or several mappings to be merged"):
        parse("--config", write("a.yaml", "p.part: {<<: 3}"))


def test_escaped_characters(write: Write) -> None:
    assert parse("--config", write("a.yaml", r'p: {text: "\ud83d\ude00"}')).text == "\U0001f600"
    with pytest.raises(UsageError, match="column 11: an escaped character is not Unicode"):
        parse("--config", write("a.yaml", r'p: {text: "\ud83d"}'))


def settings(*pairs: tuple[str, str, str]) -> list[Setting]:
    return [Setting(path, Words(words.split()), origin) for path, words, origin in pairs]


def test_apply_leaves_the_tree_and_what_is_not_given() -> None:
    array, part = np.zeros(3), PartParams()
    tree = TextParams(anything=array, part=part, again=part)
    found = apply(tree, settings(("p.part.size", "7", "first"), ("p.whole", "2", "second")))
    assert (tree.whole, part.size, tree.runs) == (1, 3, 1)
    assert found.anything is array
    assert found.part is found.again
    assert found.part is not part
    assert (found.part.size, found.whole) == (7, 2)
    assert found.runs == 2


def test_classes_apply_before_fields_and_a_later_choice_drops_those_of_the_former_class() -> None:
    given = settings(
        ("p.part.rate", "2", "first"), ("p.part.size", "7", "first"), ("p.part", "OtherPartParams", "first")
    )
    assert apply(TextParams(), given).part == OtherPartParams(7, rate=2.0)
    later = settings(("p.part", "PartParams", "second"))
    assert apply(TextParams(), [*given, *later]).part == PartParams(7)
    own = settings(("p.part.rate", "3", "second"), ("p.part", "PartParams", "second"))
    with pytest.raises(UsageError, match=r"^second: unknown key p\.part\.rate; it belongs to"):
        apply(TextParams(), [*given, *own])


def test_an_error_names_the_source_and_changes_nothing() -> None:
    tree = TextParams()
    with pytest.raises(UsageError, match=r"^size is 0, expected at least 1: change p\.part\.size in a\.yaml$"):
        apply(tree, settings(("p.part.size", "0", "a.yaml")))
    with pytest.raises(UsageError, match=r"change --p\.part\.size$"):
        set_flags(tree, {"p.whole": 5, "p.part.size": 0})
    assert (tree.whole, tree.part.size, tree.runs) == (1, 3, 1)


def test_post_init_runs_once() -> None:
    assert parse("--p.whole", "2", "--p.part", "OtherPartParams").runs == 1


def test_items_of_a_dict_have_flags(write: Write) -> None:
    tree = TextParams(free={"a": 1, "b": 2})
    set_flags(tree, {"p.free.b": "1e-3", "p.free.c": "x y"})
    assert tree.free == {"a": 1, "b": 0.001, "c": "x y"}
    whole = write("a.yaml", "p.free: {a: 1, b: 2}")
    assert parse("--config", whole, "--p.free.a", "3").free == {"a": 3, "b": 2}
    assert parse("--config", write("b.yaml", "p.free.a: 3"), whole).free == {"a": 1, "b": 2}
    with pytest.raises(UsageError, match=r"^--p\.free is given as a whole and in parts: give one of them$"):
        parse("--p.free.a", "3", "--p.free", "b=2")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": None, "text": "None", "anything": "1e-3", "either": "1", "path": Path("a"), "pad": None},
        {"rates": {1: 0.5}, "words": ["-a", "b c"], "free": {"a": [1, None]}, "order": ["none", None]},
        {"part": OtherPartParams(7, rate=2.0), "maybe": PartParams(), "near": PartParams(rows=[1, 2])},
        {"parts": [PartParams(5), OtherPartParams()]},
        {"parts": []},
        {"anything": len},
    ],
)
def test_differences_are_the_settings_of_the_other_tree(changes: dict[str, Any]) -> None:
    old, new = TextParams(), TextParams(**changes)
    found = differences(old, new)
    new.runs += 1
    assert apply(old, found) == new
    assert (not found) == (not changes)
