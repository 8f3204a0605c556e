"""`--print_config`: it shows the origin of each value, and writes a config file that gives the same params."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st

from test.params import cli_params as p
from test.params.conftest import Write
from test.params.test_config import parse
from test.support.commands import finish_command, start_python
from tfaip.params.help import yaml_text


def printed(capsys: pytest.CaptureFixture[str], *argv: str, default: p.RunParams | None = None) -> str:
    with pytest.raises(SystemExit) as end:
        parse(*argv, "--print_config", default=default)
    assert end.value.code == 0
    return capsys.readouterr().out


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
    assert "run.output_dir: null  # default" in printed(capsys, default=p.RunParams()).splitlines()


# 1.5 and the like need no quotes; all these would be taken for something else.
def test_strings_stay_strings_in_yaml(subtests: pytest.Subtests) -> None:
    for text in [
        *(
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
        ),
        *("😀", " a", "2024-01-01", "0x1f", "=", "<<"),
    ]:
        with subtests.test(text=text):
            document = f"{yaml_text(text + 'k') if text else 'k'}: [{yaml_text(text)}]  # comment"
            assert yaml.safe_load(document) == {text + "k": [text]}


text = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
integers = st.integers(-(2**63), 2**63 - 1)
numbers = st.floats(allow_nan=False)
rates = st.builds(p.ConstantRateParams, numbers) | st.builds(p.CosineRateParams, numbers, st.none() | numbers, numbers)
layers = st.builds(p.DenseLayerParams, integers, st.booleans()) | st.builds(p.ConvolutionLayerParams, kernel=integers)
keys = st.from_regex(r"\A[a-z]\w*\Z")
graphs = st.builds(p.MLPGraphParams, st.lists(layers)) | st.builds(
    p.CNNGraphParams, heads=st.dictionaries(keys, layers)
)


@given(
    st.builds(
        p.RunParams,
        output_dir=text.filter(bool),
        epochs=st.integers(0, 2**62 - 1),
        overwrite=st.booleans(),
        mode=st.sampled_from(p.Mode),
        gpus=st.lists(integers),
        weights=st.dictionaries(text, numbers),
        points=st.dictionaries(numbers, numbers),
        names=st.sets(text),
        either=integers | text,
        anything=st.none() | integers | text | st.lists(text),
        grid=st.lists(st.lists(integers)),
        span=st.builds(p.RangeParams, numbers, numbers),
        optimizer=st.builds(p.AdamOptimizer, st.none() | numbers, numbers)
        | st.builds(p.SGDOptimizer, momentum=numbers),
        learning_rate=rates,
        graph=graphs,
        backup=st.none() | st.builds(p.SGDOptimizer, momentum=numbers),
    )
)
def test_print_config_property(tmp_path_factory: pytest.TempPathFactory, params: p.RunParams) -> None:
    import contextlib
    import io

    file = tmp_path_factory.mktemp("config") / "printed.yaml"
    with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(SystemExit):
        parse("--print_config", default=params)
    file.write_text(out.getvalue(), encoding="utf-8")
    assert parse("--config", str(file), default=p.RunParams()) == params


def test_the_printed_config_selects_own_classes_in_a_process_that_has_not_imported_them(tmp_path: Path) -> None:
    chosen = ["--optimizer", "test.params.own_parts:OwnOptimizer", "--optimizer.power", "3"]
    chosen += ["--run.graph.layers", "Dense", "test.params.own_parts:OwnLayerParams"]
    file = tmp_path / "printed.yaml"
    code = (
        "import sys\n"
        "from test.params.parsing import make_parser\n"
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
