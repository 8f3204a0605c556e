"""`--help`, and help texts that are strings under the fields."""

from __future__ import annotations

import importlib
import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from test.params.cli_params import RunParams, make_parser, parser_of
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option
from tfaip.params.choices import ClassChoice
from tfaip.params.fields import help_of as field_help, source_help


def help_of(capsys: pytest.CaptureFixture[str], *argv: str, topics: tuple[str, ...] = ("all",)) -> str:
    with pytest.raises(SystemExit) as end:
        make_parser().parse([*argv, "--help", *topics])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_shows_the_state_after_the_other_flags(capsys: pytest.CaptureFixture[str]) -> None:
    default: Any = RunParams(anything=object())  # cannot be written
    with pytest.raises(SystemExit):
        make_parser(default).parse(["--optimizer", "SGD", "--run.epochs", "7", "--no_such_flag", "--help", "all"])
    text = capsys.readouterr().out
    assert text.startswith("usage: tfaip-test [--flag value ...]\n\nTests flags.\n\nGeneral options\n")
    for part in [
        "  --dry_run bool = False\n      Do nothing.\n",
        "  --run.output_dir str | None (required)\n      Where results go.\n",
        "--run.anything a value\n",
        "  --run.graph CLASS = MLP\n      Choices: MLP, CNN.\n",
        "  --run.graph.heads KEY=CLASS ... = {}\n",
    ]:
        assert part in text
    assert "secret" not in text
    assert "\nSGDOptimizer (--optimizer)\n  --optimizer CLASS = SGD\n" in text
    assert "--optimizer.momentum float = 0.0" in text
    assert "beta_1" not in text
    assert "--run.epochs int = 7" in text


class BaseParams(ParamsBase):
    def cls(self) -> type:
        raise NotImplementedError("override cls()")


class MiddleParams(BaseParams):
    """Still to be derived from."""


class FinalParams(MiddleParams):
    def cls(self) -> type:
        return int


def test_classes_to_derive_from_are_no_choices() -> None:
    assert ClassChoice(BaseParams, {}).classes == [FinalParams]


def topic(capsys: pytest.CaptureFixture[str], *topics: str) -> list[str]:
    """Return the flags and headings of a part of the help."""
    # Without the notes on modules of other tests.
    shown = help_of(capsys, topics=topics).partition("note: ")[0].splitlines()
    return [line.split(" (")[0].split(" = ")[0].strip() for line in shown if line and not line.startswith("      ")]


RATE = "CosineRateParams; --learning_rate CLASS; --learning_rate.lr float; --learning_rate.max_lr float | None; "
RATE += "--learning_rate.alpha float"
OPTIMIZER = "AdamOptimizer; --optimizer CLASS; --optimizer.clip_norm float | None; --optimizer.weight_decay float; "
OPTIMIZER += "--optimizer.beta_1 float"
TRAIN = "PipelineParams; --train.batch_size int; ListsGeneratorParams; --train CLASS; --train.lists list[str]"
MOMENTUM = "Flags of other classes; --optimizer.momentum with --optimizer SGD; "
MOMENTUM += "--run.backup.momentum with --run.backup SGD"


@pytest.mark.parametrize(
    ("topics", "shown"),
    [
        # A group, a flag, the beginning of a flag.
        (["optimizer"], OPTIMIZER),
        (["learning_rate.lr", "train"], f"CosineRateParams; --learning_rate.lr float; {TRAIN}"),
        (["limit"], "General options; --limit int"),
        # A word of a flag or of its help.
        (["batch"], "PipelineParams; --train.batch_size int; PipelineParams; --val.batch_size int"),
        (["where RES"], "RunParams; --run.output_dir str | None"),
        (["momentum"], MOMENTUM),
        # The name of a class.
        *((name, RATE) for name in (["learning_rate"], ["CosineRate"], ["cosinerateparams"])),
    ],
)
def test_topics(topics: list[str], shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "; ".join(topic(capsys, *topics)) == shown


def test_topics_of_several_groups(capsys: pytest.CaptureFixture[str]) -> None:
    # A group has also the flags that leave out its name.
    assert "--overwrite bool" in topic(capsys, "run")
    # A class in a list: the flag that chooses it, and its own flags.
    shown = topic(capsys, "DenseLayerParams")
    assert "--run.graph.layers CLASS ..." in shown
    assert shown[-3:] == ["DenseLayerParams", "--run.graph.layers.0.units int", "--run.graph.layers.0.bias bool"]
    for word, hint in (("epoch_", "epochs"), ("CosinRateParams", "CosineRateParams")):
        with pytest.raises(UsageError, match=f"^--help '{word}': no flag, class or help text.*; did you mean {hint}"):
            help_of(capsys, topics=(word,))


def test_python_paths_lead_to_the_values(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "--python", "--run.graph.heads", "a=Dense")
    lines = [line.strip() for line in text.splitlines()]
    run = RunParams()
    paths = {}
    for flag, below in zip(lines, lines[1:], strict=False):
        if below.startswith("Python: "):
            paths[flag.split()[0]] = below.removeprefix("Python: ")
    assert paths["--run.graph.layers.0.units"] == "run.graph.layers[0].units"
    assert paths["--run.graph.heads.a.units"] == "run.graph.heads['a'].units"
    assert paths["--train.batch_size"] == "run.gen.setup.train.batch_size"
    assert run.graph.layers[0].units == 4
    with pytest.raises(UsageError, match=r"^--python shows Python paths in the help: add --help$"):
        make_parser().parse(["--python"])


class Line(ParamsBase):
    """What a line looks like."""

    height: int = 16
    """Height of a line,
    in pixels"""
    alphabet: str = option("01", "Characters")
    """Not shown: the option says it already"""
    plain: int = 1
    f"not a {plain} constant"
    last: int = 2


class Higher(Line):
    height = 32
    """Height of a high line"""
    alphabet = "abc"
    last: int = 3
    """Of the subclass"""


@dataclass
class Plain:
    x: int = 1
    """No params class"""


def test_help_of_a_field() -> None:
    names = ["height", "alphabet", "plain", "last"]
    assert [field_help(Line, name) for name in names] == ["Height of a line, in pixels", "Characters", "", ""]
    assert [field_help(Higher, name) for name in names] == [
        "Height of a high line",
        "Characters",
        "",
        "Of the subclass",
    ]
    assert field_help(Plain, "x") == "No params class"


SOURCE = "from tfaip.params import ParamsBase\nclass Gone(ParamsBase):\n    x: int = 1\n    'Help of x'\n"


@pytest.mark.parametrize("source", [SOURCE, None, "class Gone(:", "\0", "(" * 100_000])
def test_the_source_is_read_for_help_only_and_may_be_gone(
    source: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gone_module.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("gone_module").Gone
    monkeypatch.setitem(sys.modules, "gone_module", sys.modules.pop("gone_module"))  # it leaves at the end
    path.unlink()
    if source is not None:
        path.write_text(source)
    read = source_help.cache_info().misses
    assert parser_of(cls).parse(["--p.x", "3"]).p.x == 3
    assert source_help.cache_info().misses == read
    with pytest.raises(SystemExit):
        parser_of(cls).parse(["--help"])
    text = capsys.readouterr().out
    assert "  --p.x int = 1\n" in text
    assert ("      Help of x.\n" in text) == (source is SOURCE)
    linecache.checkcache(str(path))
