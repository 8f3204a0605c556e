"""`--help`."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import field
from typing import Any

import pytest

from test.params.cli_params import RunParams
from test.params.parsing import make_parser
from test.params.test_cli import ShapesParams
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option, pai_meta
from tfaip.params.commandline import ParamsParser


def help_of(capsys: pytest.CaptureFixture[str], *argv: str, topics: tuple[str, ...] = ("all",)) -> str:
    with pytest.raises(SystemExit) as end:
        make_parser().parse([*argv, "--help", *topics])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_flags_are_grouped_by_class_with_type_value_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys)
    assert text.startswith("usage: tfaip-test [--flag value ...]\n\nTests flags.\n\nGeneral options\n")
    for part in [
        "  --dry_run bool = False\n      Do nothing.\n",
        "  --limit int = 3\n",
        "\nRunParams (--run): Everything about a run.\n",
        "  --run.output_dir str | None (required)\n      Where results go.\n",
        "  --run.epochs int = 100\n      Number of epochs.\n",
        "  --overwrite bool = False\n",
        "  --run.mode fast | slow = fast\n",
        "  --run.gpus list[int] = []\n",
        "  --run.size str = s\n      Choices: s, m, l.\n",
        "\nAdamOptimizer (--optimizer)\n  --optimizer CLASS = Adam\n      Choices: Adam, SGD, or module:Class.\n",
        "\nCosineRateParams (--learning_rate): Falls like a cosine.\n",
        "      Schedule. Choices: Rate, Constant, Cosine, or module:Class.\n",
        "  --learning_rate.alpha float = 0.1\n      Fraction at the end.\n",
        "  --run.graph CLASS = MLP\n      Choices: MLP, CNN.\n",
        "  --run.graph.layers CLASS ... = [Dense]\n",
        "\nDenseLayerParams (--run.graph.layers.0)\n  --run.graph.layers.0.units int = 4\n",
        "  --run.graph.heads KEY=CLASS ... = {}\n",
        "  --run.backup CLASS = None\n      Choices: Optimizer, Adam, SGD, or module:Class.\n",
        "\nRangeParams (--run.span)\n  --run.span.low ",
        "  --data.size tuple[int, int] = [28, 28]\n",
        "\nPipelineParams (--train)\n  --train.batch_size int = 16\n",
    ]:
        assert part in text
    assert "secret" not in text
    assert ": None" not in text


def test_help_shows_the_state_after_the_other_flags(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys, "--optimizer", "SGD", "--run.epochs", "7", "--no_such_flag")
    assert "\nSGDOptimizer (--optimizer)\n  --optimizer CLASS = SGD\n" in text
    assert "--optimizer.momentum float = 0.0" in text
    assert "beta_1" not in text
    assert "--run.epochs int = 7" in text


def test_lines_fit_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for columns, limit in [("80", 80), ("300", 100), ("5", 40)]:
        with subtests.test(columns=columns):
            monkeypatch.setenv("COLUMNS", columns)
            lines = help_of(capsys).splitlines()
            assert max(map(len, lines)) <= limit
            assert len({line.strip() for line in lines}) > 20


def test_classes_that_must_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ParamsParser("x")
    parser.add_params("p", ShapesParams)
    with pytest.raises(SystemExit):
        parser.parse(["-h"])
    text = capsys.readouterr().out
    assert "  --p.main CLASS (required)\n      Choices: Square, or module:Class.\n" in text
    assert "  --p.more CLASS ... = None\n" in text


def test_wrong_values_are_errors_in_spite_of_help() -> None:
    with pytest.raises(UsageError, match="expected int"):
        make_parser().parse(["--run.epochs", "x", "--help"])


def test_defaults_that_cannot_be_written_do_not_break_help(capsys: pytest.CaptureFixture[str]) -> None:
    default: Any = RunParams(anything=object())
    with pytest.raises(SystemExit):
        make_parser(default).parse(["--help"])
    assert "--run.anything a value\n" in capsys.readouterr().out


class BaseParams(ParamsBase):
    rate: float = field(default=0.5, metadata=pai_meta(help="How fast"))

    def cls(self) -> type:
        raise NotImplementedError("override cls()")


class MiddleParams(BaseParams):
    """Still to be derived from."""


class FinalParams(MiddleParams):
    rate: float = 0.25

    def cls(self) -> type:
        return int


class OfferParams(ParamsBase):
    one: BaseParams = field(default_factory=FinalParams)
    more: list[BaseParams] = field(default_factory=list)


def test_classes_to_derive_from_are_no_choices_and_help_is_inherited(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ParamsParser("x")
    parser.add_params("p", OfferParams, metadata={"fix_dc": True})
    with pytest.raises(SystemExit):
        parser.parse(["-h", "all"])
    text = capsys.readouterr().out
    assert text.count("Choices: Final, or module:Class.") == 2
    assert "  --p.one.rate float = 0.25\n      How fast.\n" in text
    with pytest.raises(UsageError, match="no class 'Middle'"):
        parser.parse(["--p.one", "Middle"])


def test_the_command_line_needs_no_heavy_module() -> None:
    code = (
        "import sys, contextlib, io\n"
        "from test.params.cli_params import RunParams\n"
        "from tfaip.params.commandline import ParamsParser\n"
        "parser = ParamsParser('x'); parser.add_params('run', RunParams)\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    parser.parse(['--help'])\n"
        "print(sorted({'numpy', 'yaml', 'rich', 'keras', 'tensorflow', 'jax'} & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


def topic(capsys: pytest.CaptureFixture[str], *topics: str) -> list[str]:
    """Return the flags and headings of a part of the help."""
    # Without the notes on modules of other tests.
    shown = help_of(capsys, topics=topics).partition("note: ")[0].splitlines()
    return [line.split(" (")[0].split(" = ")[0].strip() for line in shown if line and not line.startswith("      ")]


def test_a_group_a_flag_and_the_beginning_of_a_flag(capsys: pytest.CaptureFixture[str]) -> None:
    assert topic(capsys, "optimizer") == [
        "AdamOptimizer",
        "--optimizer CLASS",
        "--optimizer.clip_norm float | None",
        "--optimizer.weight_decay float",
        "--optimizer.beta_1 float",
    ]
    assert topic(capsys, "learning_rate.lr", "train") == [
        "CosineRateParams",
        "--learning_rate.lr float",
        "PipelineParams",
        "--train.batch_size int",
        "ListsGeneratorParams",
        "--train CLASS",
        "--train.lists list[str]",
    ]
    # A group has also the flags that leave out its name.
    assert "--overwrite bool" in topic(capsys, "run")
    assert topic(capsys, "limit") == ["General options", "--limit int"]


def test_a_word_of_a_flag_or_of_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert topic(capsys, "batch") == [
        "PipelineParams",
        "--train.batch_size int",
        "PipelineParams",
        "--val.batch_size int",
    ]
    assert topic(capsys, "where RES") == ["RunParams", "--run.output_dir str | None"]
    assert topic(capsys, "momentum") == [
        "Flags of other classes",
        "--optimizer.momentum with --optimizer SGD",
        "--run.backup.momentum with --run.backup SGD",
    ]
    with pytest.raises(
        UsageError, match=r"^--help 'epoch_': no flag, class or help text has this word; did you mean epochs"
    ):
        help_of(capsys, topics=("epoch_",))


def test_the_name_of_a_class_in_a_heading_or_that_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    expected = topic(capsys, "learning_rate")
    assert expected[0] == "CosineRateParams"
    assert topic(capsys, "CosineRate") == topic(capsys, "cosinerateparams") == expected
    # A class in a list: the flag that chooses it, and its own flags.
    shown = topic(capsys, "DenseLayerParams")
    assert "--run.graph.layers CLASS ..." in shown
    assert shown[-3:] == ["DenseLayerParams", "--run.graph.layers.0.units int", "--run.graph.layers.0.bias bool"]
    with pytest.raises(UsageError, match=r"no flag, class or help text has this word; did you mean CosineRateParams"):
        help_of(capsys, topics=("CosinRateParams",))


class RangesParams(ParamsBase):
    """Numbers with limits."""

    units: int = option(16, "Units", low=1, high=512)
    rate: float = option(0.5, "Rate", above=0, below=1)
    scale: float | None = option(None, "Scale", above=0)
    limit: int = option(-1, "Limit", low=1, also={-1: "all"})
    layers: list[int] = option([4], "Layers", high=9)
    needed: int = option(1, "Needed", low=2, required=True)
    plain: int = option(3, "Plain")


class InheritedParams(RangesParams):
    units = 32


def test_the_range_of_a_number_is_shown(capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    for topics in [(), ("all",), ("p",), ("InheritedParams",)]:
        with subtests.test(topics=topics):
            parser = ParamsParser("x")
            parser.add_params("p", InheritedParams)
            with pytest.raises(SystemExit):
                parser.parse(["--help", *topics])
            lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
            assert [line for line in lines if line.startswith("--p.")] == [
                "--p.units int = 32 (from 1 to 512)",
                "--p.rate float = 0.5 (in (0, 1))",
                "--p.scale float | None = None (above 0)",
                "--p.limit int = -1 (at least 1, or -1)",
                "--p.layers list[int] = [4] (at most 9)",
                "--p.needed int (required) (at least 2)",
                "--p.plain int = 3",
            ]


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
