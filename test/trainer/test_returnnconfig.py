"""The learning rate of a config of RETURNN, read as text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaip.errors import UsageError
from tfaip.scripts import replay_learning_rate
from tfaip.trainer.scheduler import (
    ConstantParams,
    CyclicModulationParams,
    Divisor,
    NewbobAbsParams,
    NewbobMultiEpochParams,
    NewbobRelParams,
)
from tfaip.trainer.tools.returnnconfig import read_rate_config

MULTI = """\
#!rnn.py
import numpy
from returnn.config import get_global_config

base: float = 1e-3
learning_rate = base * 10
learning_rates = [1e-5] + [base] * 2
learning_rate_control = "newbob_multi_epoch"
learning_rate_control_error_measure = "dev_error_output"
learning_rate_control_min_num_epochs_per_new_lr = 2
learning_rate_control_relative_error_relative_lr = True
newbob_multi_num_epochs = 3
newbob_multi_update_interval = 1
newbob_learning_rate_decay = 2 ** -1
newbob_relative_error_threshold = -0.02
relative_error_div_by_old = True
min_learning_rate = learning_rate / 50
batch_size = 5000
network = {"output": {"class": "softmax", "from": numpy.zeros(3)}}
if batch_size > 3:
    batch_size = 7


def other(**kwargs):
    learning_rate = 3
"""


def config(tmp_path: Path, text: str) -> Path:
    (tmp_path / "my.config").write_text(text)
    return tmp_path / "my.config"


def test_the_options_of_a_control(tmp_path: Path) -> None:
    assert read_rate_config(config(tmp_path, MULTI)) == NewbobMultiEpochParams(
        lr=0.01,
        rates=[1e-5, 1e-3, 1e-3],
        monitor="dev_error_output",
        hold_epochs=2,
        relative_to_lr=True,
        window_epochs=3,
        update_every_n_epochs=1,
        decay=0.5,
        threshold=-0.02,
        divide_by=Divisor.OLD,
        min_lr=0.0002,
    )


def test_options_that_the_control_does_not_have_are_left_out(tmp_path: Path) -> None:
    text = "learning_rate = 1\nnewbob_multi_num_epochs = 3\nrelative_error_div_by_old = False\n"
    assert read_rate_config(config(tmp_path, text)) == ConstantParams(lr=1.0)
    text += "newbob_error_threshold = -0.5\nlearning_rate_control = 'newbob_abs'\n"
    assert read_rate_config(config(tmp_path, text)) == NewbobAbsParams(lr=1.0, threshold=-0.5)
    text += "learning_rate_control = 'newbob_rel'\nlearning_rates = {3: 0.5}\n"
    expected = NewbobRelParams(lr=1.0, threshold=-0.5, divide_by=Divisor.NEW, rates={3: 0.5})
    assert read_rate_config(config(tmp_path, text)) == expected


def test_names_that_mean_the_same(tmp_path: Path) -> None:
    for name in ("newbob", "newbob_rel", "newbob_relative"):
        text = f"learning_rate = 1\nlearning_rate_control = {name!r}\nnewbob_relative_error_div_by_old = True"
        expected = NewbobRelParams(lr=1.0, divide_by=Divisor.OLD)
        assert read_rate_config(config(tmp_path, text)) == expected


def test_items_of_dicts(tmp_path: Path) -> None:
    """Entries that code computes do not hide the others."""
    text = "learning_rate = 1\nlearning_rate_control = 'newbob_multi_epoch'\n"
    text += "train = {'files': sorted(glob('*')), 'partition_epoch': 7, 'seq_ordering': 'random'}\n"
    text += "newbob_multi_num_epochs = train['partition_epoch']\n"
    assert read_rate_config(config(tmp_path, text)) == NewbobMultiEpochParams(lr=1.0, window_epochs=7)


def test_no_warning_if_the_control_is_on_in_pretraining(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "learning_rate = 1\npretrain = {'repetitions': 2}\nuse_learning_rate_control_always = True\n"
    assert read_rate_config(config(tmp_path, text)) == ConstantParams(lr=1.0)
    assert not caplog.records


def test_a_cycle_and_a_function(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cyclic = config(tmp_path, "learning_rate = 1.0\ndynamic_learning_rate = {'interval': 3, 'decay': 0.5}")
    assert read_rate_config(cyclic) == ConstantParams(lr=1.0, modulation=CyclicModulationParams(3, 0.5))
    text = "learning_rate = 1.0\ndef dynamic_learning_rate(**kwargs): return open('executed', 'w')\n"
    text += "pretrain = {'construction_algo': dynamic_learning_rate}\n"
    assert read_rate_config(config(tmp_path, text)) == ConstantParams(lr=1.0)
    pretrain, function = (record.getMessage() for record in caplog.records)
    assert "has pretraining without use_learning_rate_control_always, so that RETURNN holds the rate in it" in pretrain
    assert "dynamic_learning_rate is a function, which is not run: its factor is left out" in function


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "sets neither learning_rate nor learning_rates"),
        ("learning_rate = open('executed', 'w')", "learning_rate is computed by code: not a number, .* in line 1"),
        ("import x\nlearning_rates = list(x)", "learning_rates is computed by code: .* in line 2"),
        ("learning_rate = 1\nif 1:\n  learning_rate = 2", "learning_rate is set by code in line 3"),
        ("learning_rate = 1\nfor learning_rate in x: pass", "learning_rate is set by code in line 2"),
        ("learning_rate = 1\nlearning_rate += 2", "learning_rate is set by code in line 2"),
        ("learning_rates = [1.0]\nlearning_rates.append(2.0)", "learning_rates is changed by code in line 2"),
        ("learning_rates = [1.0]\nlearning_rates[0] = 2.0", "learning_rates is changed by code in line 2"),
        (
            "d = {'a': 1}\nlearning_rate = d['b']",
            "learning_rate is computed by code: no such item: 'b'; write its value",
        ),
        ("d = {'a': 1}\nd['a'] = 2\nlearning_rate = d['a']", "learning_rate is computed by code: .* in line 3"),
        ("d = {'a': 1}\nd.update(x)\nlearning_rate = d['a']", "learning_rate is computed by code: .* in line 3"),
        ("d = {'a': 1}\nx = f(d)\nlearning_rate = d['a']", "learning_rate is computed by code: .* in line 3"),
        ("d = {'a': 1}\nx = [d]\nlearning_rate = d['a']", "learning_rate is computed by code: .* in line 3"),
        ("d = {'a': 1}\ndef f(): d.clear()\nlearning_rate = d['a']", "learning_rate is computed by code: .* in line 3"),
        ("def min_learning_rate(): pass", "min_learning_rate is a function in line 1"),
        ("learning_rate = later\nlater = 1", "learning_rate is computed by code"),
        ("learning_rate = 'a'", "params.lr: expected float, got 'a'"),
        ("learning_rate = -1", "lr is -1.0, expected at least 0"),
        ("learning_rate = nan", "lr is nan, expected a finite number"),
        ("learning_rate = 1\nlearning_rates = [0.1, -1.0]", r"rates\[1\] is -1.0, expected at least 0"),
        ("learning_rate = 1\nmin_learning_rate = 2", r"min_lr is 2.0, expected at most lr \(1.0\)"),
        ("learning_rate = 1\nlearning_rate_control = 'bob'", "learning_rate_control is 'bob', expected one of"),
        ("learning_rate = 1\nlearning_rate_control = ['a']", "learning_rate_control is .'a'., expected one of"),
        ("learning_rate = 1\ndynamic_learning_rate = {'a': 1}", "dynamic_learning_rate is {'a': 1}, expected interval"),
        ("task train", "cannot be read as a config of RETURNN: invalid syntax in line 1"),
        ("learning_rate = 10.0 ** 10 ** 10", "computed by code: OverflowError"),
        ("learning_rate = 10 ** 400", "computed by code: OverflowError"),
        ("learning_rate = 1" + "0" * 400, "expected float, got <integer"),
        ("learning_rate = 1" + "0" * 9999, "cannot be read as a config of RETURNN"),
        ("learning_rates = [1.0] * 10 ** 9", "computed by code"),
        ("learning_rates = [1.0] * 1000000000", "a list that is too long"),
        ("learning_rates = [[1.0] * 9999] * 9999", r"expected list\[float\]"),
        ("learning_rate = " + "(" * 500, "cannot be read as a config of RETURNN"),
        ("learning_rate = " + "-" * 500 + "1", "cannot be read as a config of RETURNN|computed by code"),
        ("learning_rate = '" + "x" * 10_000 + "'", "expected float, got 'xxx"),
        ("x = 1\n" * 200_000, "more than 300000 words"),
        ("learning_rate = 1\0", "cannot be read as a config of RETURNN"),
    ],
)
def test_what_cannot_be_read_is_one_line_and_never_run(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message) as caught:
        read_rate_config(config(tmp_path, text))
    assert len(str(caught.value).replace(str(tmp_path), "")) <= 300
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["my.config"]


def test_replay_with_a_config(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scores = enumerate([2.0, 1.9, 1.895, 1.894], start=1)
    epochs = ",\n".join(f"{e}: EpochData(learningRate=0.1, error={{'dev_score': {s}}})" for e, s in scores)
    (tmp_path / "learning_rates").write_text(f"{{\n{epochs}}}")
    path = config(tmp_path, "learning_rate = 0.01\nlearning_rate_control = 'newbob_rel'\n")
    command = [str(tmp_path / "learning_rates"), "--returnn_config", str(path)]

    def replayed(*flags: str) -> list[str]:
        assert replay_learning_rate.main([*command, *flags]) == 0
        return [line.split()[2] for line in capsys.readouterr().out.splitlines()[1:5]]

    assert replayed() == ["0.01", "0.01", "0.01", "0.005"]
    assert replayed("--learning_rate.decay", "0.1") == ["0.01", "0.01", "0.01", "0.001"]
    # The name of the file is that of the only output.
    recorded = (tmp_path / "learning_rates").read_text()
    (tmp_path / "learning_rates").write_text(recorded.replace("dev_score", "dev_score_output"))
    path.write_text(f"{path.read_text()}learning_rate_control_error_measure = 'dev_score'\n")
    assert replayed() == ["0.01", "0.01", "0.01", "0.005"]
    assert replay_learning_rate.main([*command, str(path)]) == 2
    assert "--returnn_config takes one file, got 2" in capsys.readouterr().err
