"""Flags and their values: equal on the command line, in YAML and in Python; what a setting leaves as it is."""

from __future__ import annotations

import json
import math
from dataclasses import field
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Dict, List, Literal  # noqa: UP035

import numpy as np
import pytest

from test.params import cli_params as p
from test.params.conftest import Write
from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParams
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_meta
from tfaip.params.codec import Decoder, Words
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import Limits
from tfaip.params.resource import Resource
from tfaip.params.settings import RootParams, apply, flag_values, get_flag, set_flags
from tfaip.params.stored import flat_flags
from tfaip.trainer.params import TrainerParams


class Padding(Enum):
    NONE = "none"
    SAME = "same"


class PartParams(ParamsBase):
    size: int = field(default=3, metadata={"limits": Limits(low=1)})
    rows: list[int] = []


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
        ("free", "{rate: 1e-3, on: yes}", "rate=1e-3 on=yes", {"rate": 0.001, "on": "yes"}),
        ("anything", "1e-3", "1e-3", 0.001),
        ("anything", "010", "010", "010"),
        ("anything", "none", "none", None),
        ("rates", "[1e-3, -2]", "1e-3 -2", [0.001, -2.0]),
        ("rates", "{0: 1e-3}", "0=1e-3", {0: 0.001}),
        ("words", "[-no, -1, 2020-01-02]", "=-no -1 2020-01-02", ["-no", "-1", "2020-01-02"]),
        ("text", "0042", "0042", "0042"),
        ("text", "~/x", "=~/x", f"{HOME}/x"),
        ("path", "~/x", "=~/x", Path(HOME, "x")),
        ("vocabulary", "~/x", "=~/x", Resource(f"{HOME}/x")),
        ("name", "None", "None", None),
        ("flag", "on", "on", True),
        ("pad", "none", "none", Padding.NONE),
        ("pad", "None", "None", None),
        ("what", "none", "none", "none"),
        ("order", "[none, all, None]", "none all None", ["none", "all", None]),
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
        ("flag", "2", "p.flag: expected True or False, got '2'"),
    ],
)
def test_wrong_text_is_wrong_everywhere(write: Write, name: str, text: str, message: str) -> None:
    for start, call in [
        ("--", lambda: parse(f"--p.{name}={text}")),
        ("a.yaml: ", lambda: parse("--config", write("a.yaml", f"p: {{{name}: {text}}}"))),
        ("--", lambda: set_flags(TextParams(), {f"p.{name}": text})),
    ]:
        with pytest.raises(UsageError) as error:
            call()
        assert str(error.value) == start + message


def test_texts_in_quotes_are_texts_but_may_be_values_too(write: Write) -> None:
    found = parse(
        "--config", write("a.yaml", 'p: {either: "1", anything: "1e-3", number: "1e-3", name: "None", pad: "None"}')
    )
    assert (found.either, found.anything, found.number, found.name) == ("1", "1e-3", 0.001, "None")
    assert found.pad is None


@pytest.mark.parametrize("name", ["p", "p.part", "p.parts", "p.free", "near"])
def test_a_section_without_keys_sets_nothing(write: Write, name: str) -> None:
    plain = TextParams()
    assert plain.runs == 1
    found = parse("--config", write("a.yaml", f"{name}:\n#  size: 3\np.maybe: PartParams"))
    assert (found.part, found.parts, found.free, found.near) == (plain.part, plain.parts, {}, plain.near)
    assert (found.maybe, found.runs) == (PartParams(), 1)
    assert parse("--config", write("a.yaml", "p.part: {}")).part == plain.part


def test_merge_keys_and_escaped_characters(write: Write) -> None:
    text = "p.part: &a {size: 4, rows: [1]}\nnear: {<<: *a, size: 5}\n"
    text += "p.maybe: {__cls__: PartParams, <<: [{size: 6}, *a]}"
    found = parse("--config", write("a.yaml", text))
    assert (found.near, found.maybe) == (PartParams(5, [1]), PartParams(6, [1]))
    assert parse("--config", write("a.yaml", r'p: {text: "\ud83d\ude00"}')).text == "\U0001f600"
    with pytest.raises(UsageError, match=r"a\.yaml: broken YAML: 'utf-16-le' codec can't decode"):
        parse("--config", write("a.yaml", r'p: {text: "\ud83d"}'))


def test_items_of_a_dict_have_flags(write: Write) -> None:
    tree = TextParams(free={"a": 1, "b": 2})
    set_flags(tree, {"p.free.b": "1e-3", "p.free.c": "x y"})
    assert tree.free == {"a": 1, "b": 0.001, "c": "x y"}
    whole = write("a.yaml", "p.free: {a: 1, b: 2}")
    assert parse("--config", whole, "--p.free.a", "3").free == {"a": 3, "b": 2}
    assert parse("--config", write("b.yaml", "p.free.a: 3"), whole).free == {"a": 1, "b": 2}
    with pytest.raises(UsageError, match=r"^--p\.free is given as a whole and in parts: give one of them$"):
        parse("--p.free.a", "3", "--p.free", "b=2")


class TreeParams(p.RunParams):
    """The tree of the tests of the command line, with the name that it has there."""

    flag_root = "run"


def test_typed_values_are_set_and_read_by_flags() -> None:
    tree: Any = TreeParams()
    optimizer, layers = p.SGDOptimizer(momentum=0.5), [p.DenseLayerParams(units=1), p.ConvolutionLayerParams()]
    values = {"run.epochs": np.int64(5), "run.mode": p.Mode.SLOW, "run.names": {"x", "y"}, "data.size": (7, 8)}
    objects = {"optimizer": optimizer, "optimizer.momentum": 0.75, "run.graph.layers": layers}
    set_flags(tree, {**values, **objects, "run/slashed.low": ".25", "run.backup": p.SGDOptimizer})
    assert [get_flag(tree, flag) for flag in values] == list(values.values())
    assert (get_flag(tree, "--run/slashed.low"), get_flag(tree, "run.backup")) == (0.25, p.SGDOptimizer())
    # Objects are taken as they are.
    assert (tree.optimizer is optimizer, optimizer.momentum, get_flag(tree, "run.graph.layers.0.units")) == (
        True,
        0.75,
        1,
    )
    set_flags(tree, {"optimizer": "SGD", "optimizer.momentum": "0.25"})
    assert tree.optimizer == p.SGDOptimizer(momentum=0.25)
    assert [id(layer) for layer in tree.graph.layers] == [id(layer) for layer in layers]
    found = flag_values(tree)
    assert found["train.batch_size"] == 16
    assert not [flag for flag in found if flag == "optimizer" or "secret" in flag]


def test_errors_are_those_of_the_command_line_and_change_nothing() -> None:
    for flag, value, line in [
        ("run.epochs", "many", "--run.epochs many"),
        ("run.epoch", 1, "--run.epoch 1"),
        ("optimizer.momentum", 1.0, "--optimizer.momentum 1.0"),
        ("run.size", "xl", "--run.size xl"),
    ]:
        tree: Any = TreeParams()
        before = tree.to_dict()
        with pytest.raises(UsageError) as error:
            set_flags(tree, {"run.mode": p.Mode.SLOW, flag: value})
        assert str(error.value) == p.failure(line)
        assert tree.to_dict() == before
    with pytest.raises(UsageError, match=r"^--run\.epochs: expected int, got 1\.5"):
        set_flags(TreeParams(), {"run.epochs": 1.5})
    with pytest.raises(UsageError, match=r"^unknown flag --run\.epoch; did you mean --run\.epochs"):
        get_flag(TreeParams(), "run.epoch")


class HolderParams(RootParams):
    part: PartParams = field(default_factory=PartParams)
    near: PartParams = field(default_factory=PartParams, metadata=pai_meta(mode="ssnake"))
    array: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.part.rows = [self.near.size]


def test_a_tree_without_a_command_has_flags_without_a_root() -> None:
    params = HolderParams(array=np.zeros(3))
    array = params.array
    params["part.size"] = 4
    params["near.size"] = "7"
    assert (params.part, params.near.size, params["part.rows"]) == (PartParams(4, [7]), 7, [7])
    assert params.array is array
    changed = apply(params, {"part.size": 9})
    assert (changed.part.size, params.part.size, changed.array is array) == (9, 4, True)
    part = PartParams()
    set_flags(part, {"size": 2})
    assert get_flag(part, "size") == 2


STORED = """{"__cls__": "mine:Trainer", "epochs": 3, "loss_weights": {"ctc": 0.5}, "schedules": [],
"optimizer": {"__cls__": "mine:Own", "own": {"__cls__": "mine:Part", "rate": 1}},
"stages": {"small": {"__cls__": "mine:Stage", "epochs": 1}},
"scenario": {"__cls__": "mine:Params", "print_eval_limit": 1,
  "model": {"__cls__": "mine:Model", "layers": [{"__cls__": "mine:Dense", "units": 8}], "sizes": {"a": 1}}},
"gen": {"__cls__": "mine:Pipelines", "setup": {"train": {"batch_size": 2}}, "more": 4,
  "train": {"__cls__": "mine:Generator", "files": ["x"], "batch_size": 7}}}"""
# The other batch size has the flag.
FLAT = """{"__cls__": "mine:Trainer", "trainer.epochs": 3, "trainer.loss_weights.ctc": 0.5, "schedules": [],
"optimizer": "mine:Own", "optimizer.own": "mine:Part", "optimizer.own.rate": 1,
"stages.small": "mine:Stage", "stages.small.epochs": 1,
"scenario.__cls__": "mine:Params", "scenario.print_eval_limit": 1,
"scenario.model.__cls__": "mine:Model", "model.layers.0": "mine:Dense", "model.layers.0.units": 8, "model.sizes.a": 1,
"gen.__cls__": "mine:Pipelines", "gen.more": 4, "train.batch_size": 2,
"train": "mine:Generator", "train.files": ["x"], "gen.train.batch_size": 7}"""


def test_stored_params_are_named_by_flags_without_their_classes() -> None:
    """Nodes in lists and dicts, values of dicts, classes that are not imported, and what has no flag."""
    declared = TrainerParams[ScenarioBaseParams, TrainerPipelineParams[DataGeneratorParams, DataGeneratorParams]]
    assert flat_flags(json.loads(STORED), declared, "trainer") == json.loads(FLAT)


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize(
    ("words", "declared", "value"),
    [
        (["-inf"], float, -math.inf),
        ([], bool, True),
        (["SAME"], Padding, Padding.SAME),
        (["2"], Level, Level.HIGH),
        (["1", "2", "3"], List[int], [1, 2, 3]),  # noqa: UP006
        (["a", "a"], set[str], {"a"}),
        (["1", "b"], tuple[int, str], (1, "b")),
        (["[1, 2]", "[]"], list[list[int]], [[1, 2], []]),
        (["a=1", "b=2.5"], Dict[str, float], {"a": 1.0, "b": 2.5}),  # noqa: UP006
        (["3"], str | int, "3"),
        (["1", "2"], int | list[int], [1, 2]),
    ],
)
def test_words_of_every_type(words: list[str], declared: Any, value: Any) -> None:
    parsed = Decoder(None).decode(Words(words), declared, "--x")
    assert (type(parsed), parsed) == (type(value), value)


@pytest.mark.parametrize(
    ("words", "declared", "message"),
    [
        ([], int, " needs a value: expected int"),
        (["1", "2"], int, " takes one value, got 2: 1 2"),
        (["0=1", "0.0=2"], dict[float, float], ": key 0.0 is given twice"),
        (["[1"], list[list[int]], ".0: expected list[int], got '[1'"),
        (["[1.5]"], list[list[int]], ".0.0: expected int, got 1.5"),
        (["9" * 400], int, ": expected an int of at most 64 bits, got <integer of 1329 bits>"),
        (["9" * 5000], int, f": expected int, got '{'9' * 50}"),
        (["1e400"], float, ": 1e400 is too large for a float"),
        (["[" * 100_000], List[List[int]], f".0: expected list[int], got '{'[' * 40}"),  # noqa: UP006
    ],
)
def test_wrong_words_are_one_short_line(words: list[str], declared: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        Decoder(None).decode(Words(words), declared, "--x")
    text = str(error.value)
    assert text == f"--x{message}" or (
        text.startswith(f"--x{message}") and message.endswith(("9", "[")) and len(text) < 300
    )
