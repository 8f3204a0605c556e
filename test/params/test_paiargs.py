"""Params trees in programs that build their command line with paiargparse."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Literal, get_args, get_origin

import pytest
from paiargparse import PAIArgumentParser, RequiredArgumentError
from paiargparse.dataclass_parser import PAIDataClassArgumentParser, UnknownArgumentError

import tfaip
from test.params.cli_params import RunParams, SGDOptimizer
from test.params.parsing import parse
from test.support.commands import CommandResult, finish_command, start_python
from tfaip.errors import UsageError
from tfaip.params import ParamsBase
from tfaip.params.flags import get_flag, root_of, set_flags
from tfaip.params.resolution.entries import Leaf, walk_entries
from tfaip.params.resolution.resolver import Resolver
from tfaip.params.resolution.sources import Settings
from tfaip.params.types.objects import NamedObject
from tfaip.params.values.encoding import encode
from tfaip.trainer.optimizer.params import OptimizerGroupParams
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.weightrules import WeightPenaltyParams

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
# Their other values need another flag: these are given as they are.
NOT_ALONE = (
    "blocks",
    "bucket_batch_sizes",
    "coordinator",
    "file_name",
    "num_processes",
    "prefixes",
    "process_id",
    "step_function",
    "tracking_uri",
    "values",
    "vary",
)
# Values of a flag; types within types have hundreds of them.
MOST_TRIED = 30
# A group without weights is an error, and so is a schedule of nothing.
NEEDED: dict[Any, dict[str, Any]] = {
    OptimizerGroupParams: {"match": ".*"},
    WeightPenaltyParams: {"match": ".*"},
    ScheduleParams: {"target": "weight_noise.stddev", "points": {0.0: 0.5}},
}
WAYS = ("library first", "library last", "own parser")


def run_own(way: str, *argv: str) -> CommandResult:
    return finish_command(start_python("-m", "test.params.own_parser", way, *argv))


@pytest.mark.parametrize("way", WAYS)
def test_a_program_with_its_own_command_line(way: str) -> None:
    result = run_own(way, *LINE.split())
    assert (result.rc, result.stderr) == (0, "")
    assert json.loads(result.stdout) == PARSED


def test_the_help_of_such_a_program_lists_all_flags() -> None:
    result = run_own("library last", "--help")
    assert (result.rc, result.stderr) == (0, "")
    text = " ".join(result.stdout.split())
    assert "--own.count int How often. = 3" in text
    assert "--train.batch_size int Samples per batch, all devices and processes together. = 16" in text
    assert "--optimizer CLASS" in text


@pytest.mark.slow
def test_messages_of_our_parser() -> None:
    result = run_own("own parser", "--trainer.output_dir", "x", "--trainer.epochs", "many")
    assert (result.rc, result.stderr) == (2, "error: --trainer.epochs: expected int, got 'many'\n")
    result = run_own("own parser", "--trainer.output_dir", "x", "--trainer.epoch", "2")
    assert result.stderr.startswith("error: unknown flag --trainer.epoch; did you mean --trainer.epochs or ")
    result = run_own("own parser", "--trainer.output_dir", "x", "-x")
    assert result.stderr == "error: unexpected argument '-x': a value follows its flag, as in --flag value\n"


def test_only_a_program_that_uses_the_libraries_imports_them() -> None:
    code = (
        "import sys, tfaip.params, tfaip.imports, tfaip.scenario.tutorial.full.scenario\n"
        "import tfaip.util.tfaipargparse as old\n"
        "libraries = {'paiargparse', 'dataclasses_json', 'marshmallow'}\n"
        "print(sorted(libraries & set(sys.modules)))\n"
        "old.TFAIPArgumentParser\n"
        "print(sorted(libraries & set(sys.modules)), 'tfaip.params.commandline.paiargs' in sys.modules)\n"
    )
    result = finish_command(start_python("-c", code))
    assert result.stdout.splitlines() == ["[]", "['dataclasses_json', 'marshmallow', 'paiargparse'] True"], result


def parse_pai(*argv: str, cls: Any = RunParams, **options: Any) -> Any:
    parser = PAIArgumentParser()
    parser.add_root_argument("run", cls, **options)
    return parser.parse_args(list(argv)).run


def test_the_flags_mean_the_same_as_in_a_command() -> None:
    line = (
        "--run.gpus 0 1 --run.weights a=1 --run.points 0.5=1 --optimizer SGD --run.graph.layers Dense conv --overwrite"
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


def test_errors_of_the_library_stay_its_own() -> None:
    with pytest.raises(RequiredArgumentError, match=r"^missing required flag: --run\.output_dir$"):
        parse_pai()
    with pytest.raises(UnknownArgumentError, match=r"--run.epoch ==> --run.epochs"):
        parse_pai("--run.output_dir", "x", "--run.epoch", "2")
    with pytest.raises(UsageError, match=r"^--run\.epochs: expected int, got 'many'$"):
        parse_pai("--run.epochs", "many")
    with pytest.raises(UsageError, match=r"^--run\.epochs is given twice"):
        parse_pai("--run.epochs", "1", "--run.epochs", "2")


def test_other_dataclasses_are_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class Plain:
        x: int = 1

    given: list[Any] = []
    original = PAIDataClassArgumentParser.add_root_argument

    def record(self: Any, name: str, cls: Any, *args: Any, **kwargs: Any) -> None:
        given.append(cls)
        original(self, name, cls, *args, **kwargs)

    Plain.__dataclass_fields__["x"].type = int
    monkeypatch.setattr(PAIDataClassArgumentParser, "add_root_argument", record)
    parser = PAIArgumentParser()
    parser.add_root_argument("plain", Plain)
    parser.add_root_argument("run", RunParams)
    args = parser.parse_args(["--plain.x", "2", "--run.output_dir", "out"])
    assert given == [Plain]
    assert (args.plain, args.run) == (Plain(2), RunParams(output_dir="out"))


def params_classes() -> list[type]:
    """Return all params classes of the package that can be made without arguments."""
    for info in pkgutil.walk_packages(tfaip.__path__, "tfaip."):
        if info.name.rpartition(".")[2].endswith(("params", "optimizers", "config")) or "scheduler" in info.name:
            importlib.import_module(info.name)
    found: list[type] = []
    todo: list[Any] = [ParamsBase]
    while todo:
        cls = todo.pop()
        todo += type.__subclasses__(cls)
        if cls.__module__.startswith("tfaip.") and not inspect.isabstract(cls) and cls is not ParamsBase:
            found.append(cls)
    return sorted(set(found), key=lambda cls: (cls.__module__, cls.__qualname__))


def other_values(value: Any, declared: Any) -> Iterator[Any]:
    """Yield values to try for a field, none of them the present one."""
    members = [member for member in get_args(declared) if member is not type(None)]
    for member in members:
        if get_origin(member) is Literal:
            yield from get_args(member)
    if get_origin(declared) is Literal:
        yield from members
    elif isinstance(declared, type) and issubclass(declared, NamedObject):
        yield "ones"
    elif isinstance(declared, type) and issubclass(declared, Enum):
        yield from declared
    elif isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, value / 2, value + 1e-4, 1, 0.5, 2, -1)
    elif isinstance(value, str) or (isinstance(declared, type) and issubclass(declared, str)):
        yield from ("skip", "x", "test.params.own_parts:rate", "out", ".*x", "a->b", "3")
    elif get_origin(declared) in (list, set, tuple):
        for item in other_values(None, members[0]):
            yield [item]
            yield [item, item]
            yield [item, item, item]
    elif get_origin(declared) is dict:
        yield from ({"a": 0.5}, {1: 0.5}, {"a": "text"})
    else:
        for member in members or [declared]:
            yield from other_values({int: 1, float: 0.25, bool: False, str: ""}.get(member), member)


def words_of(value: Any) -> list[str]:
    plain = encode(value)
    if isinstance(plain, list):
        return [str(item) for item in plain]
    if isinstance(plain, dict):
        return [f"{key}={item}" for key, item in plain.items()]
    return [str(plain)]


@pytest.mark.slow
@pytest.mark.parametrize("cls", params_classes(), ids=lambda cls: cls.__name__)
def test_each_flag_of_each_params_class(cls: Any) -> None:
    try:
        default = make(cls)
    except TypeError:
        pytest.skip("an abstract base of others")
    name = root_of(default)
    root = Resolver(Settings()).root(name, cls, default, {"fix_dc": True})
    for leaf in [entry for entry in walk_entries(root) if isinstance(entry, Leaf)]:
        value, expected = changed(cls, leaf)
        parser = PAIArgumentParser(ignore_required=True)
        parser.add_root_argument(name or "root", cls, default=default, flat=not name)
        parsed = getattr(parser.parse_args([f"--{leaf.flag}", *words_of(value)]), name or "root")
        assert type(parsed) is cls
        assert parsed.to_dict() == expected.to_dict(), leaf.flag
        assert leaf.name in NOT_ALONE or parsed.to_dict() != default.to_dict(), leaf.flag


def make(cls: Any) -> Any:
    return cls(**NEEDED.get(cls, {}))


def changed(cls: Any, leaf: Leaf) -> tuple[Any, Any]:
    """Return another value of a flag, and params with it."""
    for value in islice(other_values(leaf.value, leaf.declared), MOST_TRIED):
        params = make(cls)
        try:
            set_flags(params, {leaf.flag: value})
        except UsageError:
            continue
        if encode(get_flag(params, leaf.flag)) != encode(leaf.value):
            return value, params
    assert leaf.name in NOT_ALONE, f"--{leaf.flag}: no value found for {leaf.declared}"
    return leaf.value, make(cls)
