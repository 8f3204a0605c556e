"""Config files, and `--print_config`, which writes one with the origin of each value."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml

from test.params import cli_params as p
from test.params.conftest import Write
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.params.tree import diff, post_init


def parse(*argv: str, default: p.RunParams | None = None) -> Any:
    parser = ParamsParser("tfaip-test")
    parser.add_option("--dry_run")
    parser.add_params("run", p.RunParams, default=default or p.RunParams(output_dir="out"))
    return parser.parse(argv).run


FULL_YAML = """
run:
  epochs: 5
  points: {0.5: 1, 2: 3}
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

FULL_PARAMS = p.RunParams(
    output_dir="out",
    epochs=5,
    overwrite=True,
    points={0.5: 1.0, 2.0: 3.0},
    span=p.RangeParams(0.25, 4.0),
    backup=p.SGDOptimizer(momentum=0.001),
    optimizer=p.AdamOptimizer(beta_1=0.5),
    learning_rate=p.CosineRateParams(lr=1e-4),
    graph=p.CNNGraphParams(
        layers=[p.DenseLayerParams(), p.ConvolutionLayerParams(kernel=5), p.LayerParams(units=2)],
        heads={"a": p.DenseLayerParams(), "b": p.LayerParams(units=3)},
        pool=7,
    ),
)
FULL_PARAMS.data.size = (1, 2)
FULL_PARAMS.gen.train.lists = ["a", "b"]
FULL_PARAMS.gen.setup.train.batch_size = FULL_PARAMS.gen.setup.val.batch_size = 2


def test_everything_can_stand_in_a_file(write: Write) -> None:
    for name, text in [("a.yaml", FULL_YAML), ("a.yml", FULL_YAML), ("a.json", json.dumps(yaml.safe_load(FULL_YAML)))]:
        assert diff(FULL_PARAMS, parse("--config", write(name, text))) == []


def test_precedence(write: Write) -> None:
    one = write("one.yaml", "run.epochs: 1\nlearning_rate.lr: 1.0\noptimizer: {clip_norm: 1}")
    two = write("two.json", '{"run": {"epochs": 2}, "optimizer": {"__cls__": "SGD", "clip_norm": 2}}')
    assert [parse("--config", *files).epochs for files in ([one], [one, two], [two, "--config", one])] == [1, 2, 1]
    run = parse("--config", one, two, "--run.epochs", "3")
    assert (run.epochs, run.learning_rate.lr, run.optimizer) == (3, 1.0, p.SGDOptimizer(clip_norm=2.0))
    assert parse("--config", two, one).optimizer == p.SGDOptimizer(clip_norm=1.0)
    # A later choice of a class drops what only the earlier class knows.
    text = "optimizer: {__cls__: Adam, beta_1: 0.5, clip_norm: 3}\nrun.graph.layers: [{units: 9}, Dense]"
    run = parse("--config", write("a.yaml", text), "--optimizer", "SGD", "--run.graph.layers", "conv")
    assert (run.optimizer, run.graph.layers) == (p.SGDOptimizer(clip_norm=3.0), [p.ConvolutionLayerParams(units=8)])
    # The title of a section without keys sets nothing.
    first = write("b.yaml", "run: {names: [a], weights.b: 2}\noptimizer: SGD\nrun.graph.layers: [Dense]")
    second = write("c.yaml", "optimizer:\nrun.names:\nrun.weights:\nrun.graph.layers:")
    assert parse("--config", first, second) == parse("--config", first)


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
ZEROS = "1" + "0" * 400


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run.epoch: 1", "a.yaml: unknown key run.epoch; did you mean run.epochs"),
        ("dry_run: true", "a.yaml: dry_run is a flag of the command itself: give it as --dry_run on the command line"),
        ("optimizer: {__cls__: SGD, beta_1: 0.5}", "a.yaml: unknown key optimizer.beta_1; it belongs to Adam"),
        ("run.epochs: 1\nrun: {epochs: 2}", "a.yaml: run.epochs is given twice"),
        ("a: 1\nb: 2\na: 3", "a.yaml: broken YAML in line 3, column 1: key 'a' is given twice"),
        ("a: !!python/object/apply:os.system [ls]", "a.yaml: broken YAML in line 1, column 4: could not determine"),
        # Hostile ones.
        (BOMB + "trainer: {epochs: *a29}", "a.yaml: broken YAML: more than 50000 values if all aliases"),
        ("run: &r {epochs: *r}", "a.yaml: YAML is nested too deeply"),
        ("a: " + "[" * 200 + "]" * 200, "a.yaml: YAML is nested too deeply"),
        ("a: [" + "1," * 200_000 + "]", "a.yaml: broken YAML: more than 50000 values; a JSON file may hold more"),
        ("run: {epochs: " + "1" * 5000 + "}", "a.yaml: run.epochs: expected int, got '111"),
        (f"learning_rate: {{lr: {ZEROS}}}", "a.yaml: learning_rate.lr: 1000"),
        (f'{{"run": {{"weights": {{"a": {ZEROS}}}}}}}', "a.json: run.weights.a: expected float, got <integer"),
        ("{", "a.json: broken JSON in line 1, column 2"),
    ],
    ids=lambda text: text[:40],
)
def test_errors_name_file_and_key_in_one_short_line(write: Write, text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse("--config", write(message.partition(":")[0], text))
    assert str(error.value).startswith(message)
    assert len(str(error.value)) <= 300
    assert "\n" not in str(error.value)


def test_values_of_files(write: Write, tmp_path: Path) -> None:
    text = "run: {points: &p {1: 2}, weights: {a: 1}, names: &l [a, b]}\ntrain: {lists: *l}"
    params = parse("--config", write("a.yaml", text))
    assert (params.points, params.names, params.gen.train.lists) == ({1.0: 2.0}, {"a", "b"}, ["a", "b"])
    optional = p.RunParams(output_dir="o", backup=p.SGDOptimizer())
    assert parse("--config", write("a.yaml", "run.backup: null"), default=optional).backup is None
    assert parse("--config", write("empty.yaml", "# nothing")) == p.RunParams(output_dir="out")
    for name in ("bom.json", "bom.yaml"):
        (tmp_path / name).write_text('{"run.epochs": 7}', encoding="utf-8-sig")
        assert parse("--config", name).epochs == 7


def test_errors_about_the_file_itself(write: Write) -> None:
    for argv, message in [
        (["--config"], "--config needs the name of a file"),
        (["--config", "missing.yaml"], "missing.yaml: cannot be read (No such file or directory)"),
        (["--config", write("a.txt", "")], "a.txt: expected a file that ends with .yaml, .yml or .json"),
    ]:
        with pytest.raises(UsageError) as error:
            parse(*argv)
        assert str(error.value).startswith(message)


def test_a_former_name_of_a_branch_is_accepted_in_files_too(write: Write) -> None:
    parser = ParamsParser("tfaip-test")
    parser.add_params("run", p.RunParams)
    parser.accept_former("old.branch", "run")
    file = write("a.yaml", "old:\n  branch:\n    output_dir: a\n")
    for argv, value in [
        (["--config", file], "a"),
        (["--old.branch.output_dir", "b"], "b"),
        (["--config", file, "--run.output_dir", "c"], "c"),  # what is typed wins, whichever name is used
    ]:
        assert parser.parse(argv).run.output_dir == value
    for flag, message in [
        ("--old.branch.output_dir", r"both --old\.branch.* and --run\.output_dir are given: give only --run"),
        ("--old.branches.output_dir", "unknown flag --old.branches.output_dir"),
    ]:
        with pytest.raises(UsageError, match=message):
            parser.parse(["--run.output_dir", "c", flag, "b"])


def printed(capsys: pytest.CaptureFixture[str], *argv: str, default: p.RunParams | None = None) -> str:
    with pytest.raises(SystemExit) as end:
        parse(*argv, "--print_config", default=default)
    assert end.value.code == 0
    return capsys.readouterr().out


def test_print_config_shows_origins(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("my.yaml", "run: {mode: slow}\noptimizer: {__cls__: test.params.own_parts:OwnOptimizer, power: 0.5}")
    layers = ["--run.graph.layers", "Dense", "test.params.own_parts:OwnLayerParams"]
    lines = printed(capsys, "--config", file, "--run.epochs", "7", "--train.batch_size", "3", *layers).splitlines()
    for line in [
        "run: Run  # default",
        "run.output_dir: out  # default",
        "run.epochs: 7  # command line",
        "run.mode: slow  # my.yaml",
        "run.doubled: 14  # derived",
        'optimizer: "test.params.own_parts:OwnOptimizer"  # my.yaml',
        "optimizer.clip_norm: null  # default",
        "optimizer.power: 0.5  # my.yaml",
        'run.graph.layers: [Dense, "test.params.own_parts:OwnLayerParams"]  # command line',
        "run.graph.layers.0.units: 8  # default",
        "val.batch_size: 3  # derived",
        "overwrite: false  # default",
    ]:
        assert line in lines
    assert not [line for line in lines if "secret" in line or "dry_run" in line]
    # It does not ask for required values.
    assert "run.output_dir: null  # default" in printed(capsys, default=p.RunParams()).splitlines()


# Most of these would be taken for something else.
TEXTS = ["", "1", "1e5", "true", "No", "null", "~", "a: b", "a #b", "- a", "{", "'", '"', "\\", "é", "\n", "\x7f"]
TEXTS += ["\u2028", "\U0001f600\n", " a", "2024-01-01", "0x1f", "=", "<<"]
NUMBERS = [-(2**63), 2**63 - 1, 0]


def test_what_is_printed_is_read_as_the_same(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    odd = {"weights": dict.fromkeys(TEXTS, 1e-300), "points": {-math.inf: 1e300, 0.0: -0.0}, "names": set(TEXTS)}
    for given in [
        FULL_PARAMS,
        p.RunParams(output_dir="é: ", gpus=NUMBERS, grid=[[1], [], NUMBERS], anything=[*TEXTS, None, 1, 0.5], **odd),
        *(p.RunParams(output_dir="out", either=text, anything=text) for text in TEXTS),
    ]:
        params = copy.deepcopy(given)
        post_init(params)
        file = write("printed.yaml", printed(capsys, default=params))
        assert parse("--config", file, default=p.RunParams()) == params
