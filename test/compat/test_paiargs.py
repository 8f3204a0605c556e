"""Params trees in programs that build their command line with paiargparse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from paiargparse import PAIArgumentParser
from paiargparse.dataclass_parser import UnknownArgumentError

from test.params.cli_params import RunParams, SGDOptimizer, parse
from test.support.commands import CommandResult, finish_command, start_python
from tfaip.errors import UsageError
from tfaip.util.tfaipargparse import TFAIPArgumentParser

LINE = (
    "--verbose --own.name b --own.count 5 --predict.silent --optimizer SGD "
    "--optimizer.momentum 0.5 --model.graph MLP --model.graph.units 7 8 --train.batch_size 3 --pipeline.batch_size 9 "
    "--device.gpus 0 1 --plan.runs a=1 b=2"
)
PARSED = {
    "verbose": True,
    "own": {"name": "b", "count": 5},
    "silent": True,
    "device": [[0, 1], [0, 1], None],
    "batch_size": [9, 3],
    "optimizer": ["SGDOptimizer", 0.5],
    "units": [7, 8],
    "runs": {"a": 1, "b": 2},
    "backends": [],
    "types": ["PredictorParams", "TutorialTrainerParams", "OwnParams"],
}
WAYS = ("library first", "library last", "own parser")


def run_own(way: str, *argv: str) -> CommandResult:
    return finish_command(start_python("-m", "test.compat.own_parser", way, *argv))


@pytest.mark.parametrize("way", WAYS)
def test_a_program_with_its_own_command_line(way: str) -> None:
    result = run_own(way, *LINE.split())
    assert (result.rc, result.stderr) == (0, "")
    assert json.loads(result.stdout) == PARSED


def test_help_and_messages() -> None:
    result = run_own("library last", "--help")
    assert (result.rc, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    for line in (
        "--own.count int How often. = 3",
        "--train.batch_size int Samples per batch, all devices and processes together. = 16",
        "--optimizer CLASS",
    ):
        assert line in text
    result = run_own("own parser", "--trainer.output_dir", "x", "--trainer.epochs", "many")
    assert (result.rc, result.stderr) == (2, "error: --trainer.epochs: expected int, got 'many'\n")


def parse_pai(*argv: str, cls: Any = RunParams, **options: Any) -> Any:
    parser = PAIArgumentParser()
    parser.add_root_argument("run", cls, **options)
    return parser.parse_args(list(argv)).run


def test_the_flags_mean_the_same_as_in_a_command() -> None:
    line = (
        "--run.gpus 0 -1 --run.weights a=1 --run.points 0.5=1 --optimizer SGD --run.graph.layers Dense conv "
        "--overwrite --run.mode slow --run.names x y --run.either x --run.anything 1.5 --run.grid [1,2] [] "
        "--run.span.low 0.25 --run.span.high 4 --data.size 3 4 --learning_rate.lr 1e-4 --learning_rate.max_lr None "
        "--run.backup Adam --run.graph.heads a=conv"
    )
    assert parse_pai("--run.output_dir", "out", *line.split()) == parse(line)


def test_defaults_flat_roots_and_ignored_flags() -> None:
    default = RunParams(output_dir="out", optimizer=SGDOptimizer(momentum=0.5))
    assert parse_pai("--run.epochs=2", default=default) == parse(
        "--optimizer SGD --optimizer.momentum .5 --run.epochs 2"
    )
    assert default.epochs == 100
    assert parse_pai("--epochs", "3", "--output_dir", "out", flat=True) == parse("--run.epochs 3")
    with pytest.raises(UnknownArgumentError, match=r"Unknown Arguments --run\.epochs 2"):
        parse_pai("--run.epochs", "2", default=default, ignore=["run.epochs"])


def test_errors() -> None:
    with pytest.raises(UsageError, match=r"^missing required flag: --run\.output_dir$"):
        parse_pai()
    with pytest.raises(UnknownArgumentError, match=r"--run.epoch ==> --run.epochs"):
        parse_pai("--run.output_dir", "x", "--run.epoch", "2")
    with pytest.raises(UsageError, match=r"^--run\.epochs: expected int, got 'many'$"):
        parse_pai("--run.epochs", "many")


class OwnParser(TFAIPArgumentParser):
    def _data_class_argument_parser_cls(self) -> Any:
        return type("OwnTrees", (super()._data_class_argument_parser_cls(),), {})


def test_a_program_may_extend_the_parser_of_the_trees(capsys: pytest.CaptureFixture[str]) -> None:
    parser = OwnParser()
    parser.add_root_argument("run", RunParams)
    with pytest.raises(SystemExit):
        parser.parse_args(["--run.output_dir", "x", "--run.epoch", "2"])
    assert capsys.readouterr().err.startswith("error: unknown flag --run.epoch; did you mean --run.epochs")
