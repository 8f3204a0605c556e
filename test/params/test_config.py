"""Config files, and `--print_config`, which writes one."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, strategies as st

from test.params.cli_params import (
    AdamOptimizer,
    CNNGraphParams,
    ConstantRateParams,
    ConvolutionLayerParams,
    CosineRateParams,
    DenseLayerParams,
    LayerParams,
    ListsGenParams,
    MLPGraphParams,
    Mode,
    RangeParams,
    RateParams,
    RunParams,
    SGDOptimizer,
)
from test.support.commands import finish_command, start_python
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, config_files, names
from tfaip.params.cli import ParamsParser
from tfaip.params.config_output import yaml_text, yaml_value
from tfaip.params.tree import diff

Write = Callable[[str, str], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Write a config file into the working directory; returns its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, text: str) -> str:
        Path(name).write_text(text)
        return name

    return write_file


def parse(*argv: str, default: RunParams | None = None) -> Any:
    parser = ParamsParser("tfaip-test")
    parser.add_option("--dry_run")
    parser.add_params("run", RunParams, default=default or RunParams(output_dir="out"))
    return parser.parse(argv).run


def printed(capsys: pytest.CaptureFixture[str], *argv: str, default: RunParams | None = None) -> str:
    with pytest.raises(SystemExit) as end:
        parse(*argv, "--print_config", default=default)
    assert end.value.code == 0
    return capsys.readouterr().out


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
  span: [0.25, 4]
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


@pytest.mark.parametrize("suffix", ["yaml", "yml", "json"])
def test_everything_can_stand_in_a_file(write: Write, suffix: str) -> None:
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
    with pytest.raises(UsageError, match=r"unknown bad\.yaml: optimizer\.beta_1; it belongs to Adam"):
        parse("--config", bad)


def test_none_for_optional_nodes(write: Write) -> None:
    file = write("a.yaml", "run.backup: null")
    assert parse("--config", file, default=RunParams(output_dir="o", backup=SGDOptimizer())).backup is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run.epoch: 1", "unknown a.yaml: run.epoch; did you mean run.epochs"),
        ("run: {epoch: 1}", "unknown a.yaml: run.epoch; did you mean run.epochs"),
        ("run: 3", "a.yaml: run: expected the name of a class, got 3"),
        ("zzz: {}", "unknown a.yaml: zzz; --help all lists all flags"),
        ("dry_run: true", "unknown a.yaml: dry_run"),
        ("run.epochs: many", "a.yaml: run.epochs: expected int, got 'many'"),
        ("run.epochs: [1]", "a.yaml: run.epochs: expected int, got [1]"),
        ("run.gpus: 1", "a.yaml: run.gpus: expected list[int], got 1"),
        ("run.gpus: [1, x]", "a.yaml: run.gpus.1: expected int, got 'x'"),
        ("run.size: xl", "a.yaml: run.size: 'xl' is not among the choices s, m, l"),
        ("overwrite: 3", "a.yaml: overwrite: expected True or False, got 3"),
        ("optimizer: Adm", "a.yaml: optimizer: no class 'Adm'; did you mean Adam"),
        ("optimizer: {__cls__: 3}", "a.yaml: optimizer: expected the name of a class, got 3"),
        ("optimizer: null", "a.yaml: optimizer cannot be None"),
        ("run.graph.layers: {a: Dense}", "a.yaml: run.graph.layers: expected a list of classes, got {'a': 'Dense'}"),
        ("run.graph.layers: [Zzz]", "a.yaml: run.graph.layers.0: no class 'Zzz'"),
        ("run.graph.heads: [Dense]", "a.yaml: run.graph.heads: expected a mapping of classes, got ['Dense']"),
        ("run.span: {lw: 1}", "unknown a.yaml: run.span.lw; did you mean run.span.low"),
        ("run.span: [1, 2, 3]", "a.yaml: run.span takes up to 2 values"),
        ("run.epochs: 1\nrun: {epochs: 2}", "a.yaml: run.epochs is given twice"),
        ("a: 1\nb: 2\na: 3", "a.yaml: broken YAML in line 3, column 1: key 'a' is given twice"),
        ("a: [1", "a.yaml: broken YAML in line 1, column 6: "),
        ("a: !!python/object/apply:os.system [ls]", "a.yaml: broken YAML in line 1, column 4: could not determine"),
        ("[1]: 2", "a.yaml: broken YAML in line 1, column 1: key is not a plain name"),
        ("- 1", "a.yaml: expected flags and values, got list"),
        ("\x00", "a.yaml: broken YAML: "),
        ("a: 1" + ":1" * 1_000_000, "a.yaml: broken YAML in line 1, column 4: a number has more than 4300 digits"),
    ],
)
def test_errors_name_file_and_key(write: Write, text: str, message: str) -> None:
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
        ("run: {epochs: " + "1" * 5000 + "}", "broken YAML in line 1, column 15: a number has more than 4300 digits"),
        ("run: {epochs: !!timestamp 2020-13-40}", "broken YAML: month must be in 1..12"),
        ("run: {epochs: !!int abc}", "broken YAML: invalid literal"),
        ("run: {epochs: [" + "'" + "x" * 10_000 + "']}", "a.yaml: run.epochs: expected int, got ['xxx"),
        ("run: {epochs: {__cls__: " + "x" * 10_000 + "}}", "a.yaml: run.epochs"),
        ("run: {backup: {__cls__: " + "x" * 10_000 + "}}", "a.yaml: run.backup"),
        ("x" * 900 + ": 1", "unknown a.yaml: xxx"),
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
    monkeypatch.setattr(config_files, "YAML_VALUES", 1000)  # memory takes long to measure
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


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_numbers_that_no_float_can_hold(write: Write, suffix: str) -> None:
    for text in ('{"learning_rate": {"lr": 1%s}}', '{"run": {"weights": {"a": 1%s}}}'):
        with pytest.raises(UsageError, match="expected float, got <integer of 1329 bits>"):
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


def test_old_names_in_files(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "RENAMED_FIELDS", {"RunParams": {"n_epochs": "epochs"}})
    with pytest.warns(DeprecationWarning, match="n_epochs"):
        assert parse("--config", write("a.yaml", "run: {n_epochs: 4}")).epochs == 4


def test_print_config_shows_origins(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    file = write("my.yaml", "run: {mode: slow}\noptimizer: {__cls__: SGD, momentum: 0.5}")
    lines = printed(capsys, "--config", file, "--run.epochs", "7", "--train.batch_size", "3").splitlines()
    for line in [
        "run: Run  # default",
        "run.output_dir: out  # default",
        "run.epochs: 7  # command line",
        "run.mode: slow  # my.yaml",
        "run.doubled: 14  # derived",
        "optimizer: SGD  # my.yaml",
        "optimizer.clip_norm: null  # default",
        "optimizer.momentum: 0.5  # my.yaml",
        "learning_rate: Cosine  # default",
        "run.graph.layers: [Dense]  # default",
        "run.graph.layers.0.units: 4  # default",
        "train.batch_size: 3  # command line",
        "val.batch_size: 3  # derived",
        "overwrite: false  # default",
    ]:
        assert line in lines
    assert not [line for line in lines if "secret" in line or "dry_run" in line]


def test_print_config_does_not_ask_for_required_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert "run.output_dir: null  # default" in printed(capsys, default=RunParams()).splitlines()


def test_print_config_of_everything_is_a_config_file(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--config", write("full.yaml", FULL_YAML))
    assert parse("--config", write("again.yaml", text), default=RunParams()) == FULL_PARAMS
    assert printed(capsys, "--config", "again.yaml").replace("again.yaml", "x") == text.replace(
        "full.yaml", "x"
    ).replace("# default", "# x").replace("# derived", "# x")


# 1.5 and the like need no quotes; all these would be taken for something else.
@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1e5",
        "true",
        "No",
        "null",
        "~",
        "a: b",
        "a #b",
        "- a",
        "{",
        "'",
        '"',
        "\\",
        "é",
        "\n",
        "\x7f",
        "\u2028",
        "😀",
        " a",
        "2024-01-01",
        "0x1f",
        "=",
        "<<",
    ],
)
def test_strings_stay_strings_in_yaml(text: str) -> None:
    document = f"{yaml_text(text + 'k') if text else 'k'}: [{yaml_text(text)}]  # comment"
    assert yaml.safe_load(document) == {text + "k": [text]}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    )
)
def test_yaml_property(value: Any) -> None:
    assert yaml.safe_load(f"a: {yaml_value(value)}  # x") == {"a": value}


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
integers = st.integers(-(2**63), 2**63 - 1)
numbers = st.floats(allow_nan=False)
rates = st.builds(ConstantRateParams, numbers) | st.builds(CosineRateParams, numbers, st.none() | numbers, numbers)
layers = st.builds(DenseLayerParams, integers, st.booleans()) | st.builds(ConvolutionLayerParams, kernel=integers)
keys = st.from_regex(r"\A[a-z]\w*\Z")
graphs = st.builds(MLPGraphParams, st.lists(layers)) | st.builds(CNNGraphParams, heads=st.dictionaries(keys, layers))


@given(
    st.builds(
        RunParams,
        output_dir=text.filter(bool),
        epochs=st.integers(0, 2**62 - 1),
        overwrite=st.booleans(),
        mode=st.sampled_from(Mode),
        gpus=st.lists(integers),
        weights=st.dictionaries(text, numbers),
        points=st.dictionaries(numbers, numbers),
        names=st.sets(text),
        either=integers | text,
        anything=st.none() | integers | text | st.lists(text),
        grid=st.lists(st.lists(integers)),
        span=st.builds(RangeParams, numbers, numbers),
        optimizer=st.builds(AdamOptimizer, st.none() | numbers, numbers) | st.builds(SGDOptimizer, momentum=numbers),
        learning_rate=rates,
        graph=graphs,
        backup=st.none() | st.builds(SGDOptimizer, momentum=numbers),
    )
)
def test_print_config_property(tmp_path_factory: pytest.TempPathFactory, params: RunParams) -> None:
    import contextlib
    import io

    file = tmp_path_factory.mktemp("config") / "printed.yaml"
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
        parse("--print_config", default=params)
    file.write_text(out.getvalue(), encoding="utf-8")
    assert parse("--config", str(file), default=RunParams()) == params


def test_the_printed_config_selects_own_classes_in_a_process_that_has_not_imported_them(tmp_path: Path) -> None:
    chosen = ["--optimizer", "test.params.own_parts:OwnOptimizer", "--optimizer.power", "3"]
    chosen += ["--run.graph.layers", "Dense", "test.params.own_parts:OwnLayerParams"]
    file = tmp_path / "printed.yaml"
    code = (
        "import sys\n"
        "from test.params.test_cli import make_parser\n"
        "run = make_parser().parse(sys.argv[1:]).run\n"
        "print(run.optimizer, run.graph.layers)"
    )
    printed = run_python("-c", code, *chosen, "--print_config")
    file.write_text(printed, encoding="utf-8")
    again = run_python("-c", code, "--run.output_dir", "x", "--config", str(file))
    assert 'optimizer: "test.params.own_parts:OwnOptimizer"  # command line\n' in printed
    assert 'run.graph.layers: [Dense, "test.params.own_parts:OwnLayerParams"]  # command line\n' in printed
    assert again == (
        "OwnOptimizer(clip_norm=None, weight_decay=0.0, power=3.0) "
        "[DenseLayerParams(units=8, bias=True), OwnLayerParams(units=8, size=5)]\n"
    )


def run_python(*args: str) -> str:
    result = finish_command(start_python(*args))
    assert (result.rc, result.stderr) == (0, "")
    return result.stdout


@dataclass
class NestedRate(ParamsBase):
    rate: RateParams | None = None
    gen: ListsGenParams | None = None


def test_printed_class_names_can_be_read_again(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*argv: str) -> Any:
        parser = ParamsParser("x")
        parser.add_params("p", NestedRate)
        return parser.parse(argv).p

    with pytest.raises(SystemExit):
        run(
            "--p.rate",
            "Cosine",
            "--p.rate.alpha",
            "3",
            "--p.gen",
            "ListsGen",
            "--p.train.lists",
            "a",
            "--print_config",
        )
    again = run("--config", write("a.yaml", capsys.readouterr().out))
    assert again.rate == CosineRateParams(alpha=3.0)
    assert again.gen.train.lists == ["a"]


def test_a_former_name_of_a_branch_is_accepted_in_files_too(tmp_path: Path) -> None:
    parser = ParamsParser("tfaip-test")
    parser.add_params("run", RunParams)
    parser.accept_former("old.branch", "run")
    (tmp_path / "a.yaml").write_text("old:\n  branch:\n    output_dir: a\n")
    assert parser.parse(["--config", str(tmp_path / "a.yaml")]).run.output_dir == "a"
    assert parser.parse(["--old.branch.output_dir", "b"]).run.output_dir == "b"
    # What is typed wins over a file, whichever name is used.
    assert parser.parse(["--config", str(tmp_path / "a.yaml"), "--run.output_dir", "c"]).run.output_dir == "c"
    with pytest.raises(UsageError, match="--run.output_dir is given twice"):
        parser.parse(["--run.output_dir", "c", "--old.branch.output_dir", "b"])
    with pytest.raises(UsageError, match="unknown flag --old.branches.output_dir"):
        parser.parse(["--run.output_dir", "c", "--old.branches.output_dir", "b"])
