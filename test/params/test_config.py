"""Config files."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import yaml

from test.params.cli_params import (
    AdamOptimizer,
    CNNGraphParams,
    ConvolutionLayerParams,
    CosineRateParams,
    DenseLayerParams,
    LayerParams,
    Mode,
    RangeParams,
    RunParams,
    SGDOptimizer,
)
from test.params.conftest import Write
from tfaip.errors import UsageError
from tfaip.params import commandline
from tfaip.params.commandline import ParamsParser
from tfaip.params.tree import diff


def parse(*argv: str, default: RunParams | None = None) -> Any:
    parser = ParamsParser("tfaip-test")
    parser.add_option("--dry_run")
    parser.add_params("run", RunParams, default=default or RunParams(output_dir="out"))
    return parser.parse(argv).run


FULL_YAML = """
run:
  epochs: 5
  mode: SLOW
  gpus: [0, 1]
  weights: {a: 1, b: 2.5}
  points: {0.5: 1, 2: 3}
  names: [x]
  either: "3"
  anything: {deep: [1, null]}
  grid: [[1, 2]]
  span: {low: 0.25, high: 4}
  backup: {__cls__: SGD, momentum: 1e-3}
  graph:
    __cls__: CNN
    layers:
      - Dense
      - __cls__: conv
        kernel: 5
      - {units: 2}
    heads: {a: Dense, b: {units: 3}}
  graph.pool: 7
overwrite: true
optimizer: Adam
optimizer.beta_1: .5
learning_rate: {lr: 1e-4}
train: {batch_size: 2, lists: [a, b]}
data: {size: [1, 2]}
"""

FULL_PARAMS = RunParams(
    output_dir="out",
    epochs=5,
    overwrite=True,
    mode=Mode.SLOW,
    gpus=[0, 1],
    weights={"a": 1.0, "b": 2.5},
    points={0.5: 1.0, 2.0: 3.0},
    names={"x"},
    either="3",
    anything={"deep": [1, None]},
    grid=[[1, 2]],
    span=RangeParams(0.25, 4.0),
    backup=SGDOptimizer(momentum=0.001),
    optimizer=AdamOptimizer(beta_1=0.5),
    learning_rate=CosineRateParams(lr=1e-4),
    graph=CNNGraphParams(
        layers=[DenseLayerParams(), ConvolutionLayerParams(kernel=5), LayerParams(units=2)],
        heads={"a": DenseLayerParams(), "b": LayerParams(units=3)},
        pool=7,
    ),
)
FULL_PARAMS.data.size = (1, 2)
FULL_PARAMS.gen.train.lists = ["a", "b"]
FULL_PARAMS.gen.setup.train.batch_size = FULL_PARAMS.gen.setup.val.batch_size = 2


def test_everything_can_stand_in_a_file(write: Write, subtests: pytest.Subtests) -> None:
    for suffix in ["yaml", "yml", "json"]:
        with subtests.test(suffix=suffix):
            text = json.dumps(yaml.safe_load(FULL_YAML)) if suffix == "json" else FULL_YAML
            assert diff(FULL_PARAMS, parse("--config", write(f"full.{suffix}", text))) == []


def test_precedence(write: Write) -> None:
    one = write("one.yaml", "run.epochs: 1\nlearning_rate.lr: 1.0\noptimizer: {clip_norm: 1}")
    two = write("two.json", '{"run": {"epochs": 2}, "optimizer": {"__cls__": "SGD", "clip_norm": 2}}')
    assert parse("--config", one).epochs == 1
    assert parse("--config", one, two).epochs == 2
    assert parse("--config", two, "--config", one).epochs == 1
    run = parse("--config", one, two, "--run.epochs", "3")
    assert (run.epochs, run.learning_rate.lr, run.optimizer) == (3, 1.0, SGDOptimizer(clip_norm=2.0))
    assert parse("--config", two, one).optimizer == SGDOptimizer(clip_norm=1.0)


def test_a_later_class_choice_drops_what_only_the_earlier_class_knows(write: Write) -> None:
    file = write(
        "a.yaml", "optimizer: {__cls__: Adam, beta_1: 0.5, clip_norm: 3}\nrun.graph.layers: [{units: 9}, Dense]"
    )
    assert parse("--config", file, "--optimizer", "SGD").optimizer == SGDOptimizer(clip_norm=3.0)
    layers = parse("--config", file, "--run.graph.layers", "conv").graph.layers
    assert layers == [ConvolutionLayerParams(units=8)]
    # In one and the same file it is a mistake.
    bad = write("bad.yaml", "optimizer: {__cls__: SGD, beta_1: 0.5}")
    with pytest.raises(UsageError, match=r"bad\.yaml: unknown key optimizer\.beta_1; it belongs to Adam"):
        parse("--config", bad)


def test_none_for_optional_nodes(write: Write) -> None:
    file = write("a.yaml", "run.backup: null")
    assert parse("--config", file, default=RunParams(output_dir="o", backup=SGDOptimizer())).backup is None


def test_a_byte_order_mark_is_skipped(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name in ["bom.json", "bom.yaml"]:
        with subtests.test(name=name):
            (tmp_path / name).write_text('{"run.epochs": 7}', encoding="utf-8-sig")
            assert parse("--config", str(tmp_path / name)).epochs == 7


def test_errors_name_file_and_key(write: Write, subtests: pytest.Subtests) -> None:
    for text, message in [
        ("run.epoch: 1", "a.yaml: unknown key run.epoch; did you mean run.epochs"),
        (
            "trainer.run.graph.layers.0.x: 1",
            "a.yaml: unknown key trainer.run.graph.layers.0.x; did you mean run.graph.layers?",
        ),
        ("run: 3", "a.yaml: run: expected the name of a class, got 3"),
        ("dry_run: true", "a.yaml: dry_run is a flag of the command itself: give it as --dry_run on the command line"),
        ("--run.epochs: 1", "a.yaml: keys have no dashes: write run.epochs instead of --run.epochs"),
        ("run.epochs: [1]", "a.yaml: run.epochs: expected int, got [1]"),
        ("run.gpus: [1, x]", "a.yaml: run.gpus.1: expected int, got 'x'"),
        ("optimizer: {__cls__: 3}", "a.yaml: optimizer: expected the name of a class, got 3"),
        ("run.graph.layers: {a: Dense}", "a.yaml: run.graph.layers: expected a list of classes, got {'a': 'Dense'}"),
        ("run.epochs: 1\nrun: {epochs: 2}", "a.yaml: run.epochs is given twice"),
        ("a: 1\nb: 2\na: 3", "a.yaml: broken YAML in line 3, column 1: key 'a' is given twice"),
        ("a: [1", "a.yaml: broken YAML in line 1, column 6: "),
        ("a: !!python/object/apply:os.system [ls]", "a.yaml: broken YAML in line 1, column 4: could not determine"),
        ("[1]: 2", "a.yaml: broken YAML in line 1, column 1: key is not a plain name"),
        ("- 1", "a.yaml: expected flags and values, got list"),
        ("\x00", "a.yaml: broken YAML: "),
        ("run.epochs: 1" + ":1" * 10_000, "a.yaml: run.epochs: expected int, got '1:1:1"),
    ]:
        with subtests.test(message=message):
            with pytest.raises(UsageError) as error:
                parse("--config", write("a.yaml", text))
            assert str(error.value).startswith(message)
            assert "\n" not in str(error.value)


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB + "trainer: {epochs: *a29}", "more than 50000 values if all aliases are written out"),
        ("run: &r {epochs: *r}", "nested too deeply"),
        ("a: " + "[" * 200 + "]" * 200, "nested too deeply"),
        ("a: " + "[" * 5000 + "]" * 5000, "YAML is nested too deeply"),
        ("a: [" + "1," * 200_000 + "]", "more than 50000 values; a JSON file may hold more"),
        ("run: {epochs: " + "1" * 5000 + "}", "a.yaml: run.epochs: expected int, got '111"),
        ("run: {epochs: !!timestamp 2020-13-40}", "a.yaml: run.epochs: expected int, got '2020-13-40'"),
        ("run: {epochs: !!int abc}", "a.yaml: run.epochs: expected int, got 'abc'"),
        ("run: {epochs: [" + "'" + "x" * 10_000 + "']}", "a.yaml: run.epochs: expected int, got ['xxx"),
        ("run: {epochs: {__cls__: " + "x" * 10_000 + "}}", "a.yaml: run.epochs"),
        ("run: {backup: {__cls__: " + "x" * 10_000 + "}}", "a.yaml: run.backup"),
        ("x" * 900 + ": 1", "a.yaml: unknown key xxx"),
    ],
)
def test_a_hostile_file_is_one_short_line_(write: Write, text: str, message: str) -> None:
    name = write("a.yaml", text)
    with pytest.raises(UsageError) as error:
        parse("--config", name)
    assert message in str(error.value)
    assert len(str(error.value)) <= 300
    assert "\n" not in str(error.value)


def test_a_file_of_too_many_values_is_not_read_to_its_end(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commandline, "YAML_VALUES", 1000)  # memory takes long to measure
    name = write("a.yaml", "a: [" + "[]," * 300_000 + "]")
    tracemalloc.start()
    with pytest.raises(UsageError, match="more than 1000 values; a JSON file may hold more"):
        parse("--config", name)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


def test_anchors_and_aliases_are_values(write: Write) -> None:
    text = "run: {points: &p {1: 2}, weights: {a: 1}, names: &l [a, b]}\ntrain: {lists: *l}"
    params = parse("--config", write("a.yaml", text))
    assert (params.points, params.names, params.gen.train.lists) == ({1.0: 2.0}, {"a", "b"}, ["a", "b"])


def test_numbers_that_no_float_can_hold(write: Write, subtests: pytest.Subtests) -> None:
    for suffix, message in [("yaml", "1000.* is too large for a float"), ("json", "got <integer of 1329 bits>")]:
        with subtests.test(suffix=suffix):
            for text in ('{"learning_rate": {"lr": 1%s}}', '{"run": {"weights": {"a": 1%s}}}'):
                with pytest.raises(UsageError, match=message):
                    parse("--config", write(f"a.{suffix}", text % ("0" * 400)))


def test_errors_about_the_file_itself(write: Write) -> None:
    for argv, message in [
        (["--config"], "--config needs the name of a file"),
        (["--config", "missing.yaml"], "missing.yaml: cannot be read (No such file or directory)"),
        (["--config", write("a.txt", "")], "a.txt: expected a file that ends with .yaml, .yml or .json"),
        (["--config", write("a.json", "{")], "a.json: broken JSON in line 1, column 2"),
    ]:
        with pytest.raises(UsageError) as error:
            parse(*argv)
        assert str(error.value).startswith(message)
    assert parse("--config", write("empty.yaml", "# nothing")) == RunParams(output_dir="out")


def test_a_former_name_of_a_branch_is_accepted_in_files_too(tmp_path: Path) -> None:
    parser = ParamsParser("tfaip-test")
    parser.add_params("run", RunParams)
    parser.accept_former("old.branch", "run")
    (tmp_path / "a.yaml").write_text("old:\n  branch:\n    output_dir: a\n")
    assert parser.parse(["--config", str(tmp_path / "a.yaml")]).run.output_dir == "a"
    assert parser.parse(["--old.branch.output_dir", "b"]).run.output_dir == "b"
    # What is typed wins over a file, whichever name is used.
    assert parser.parse(["--config", str(tmp_path / "a.yaml"), "--run.output_dir", "c"]).run.output_dir == "c"
    with pytest.raises(UsageError, match=r"both --old\.branch.* and --run\.output_dir are given: give only --run"):
        parser.parse(["--run.output_dir", "c", "--old.branch.output_dir", "b"])
    with pytest.raises(UsageError, match="unknown flag --old.branches.output_dir"):
        parser.parse(["--run.output_dir", "c", "--old.branches.output_dir", "b"])
