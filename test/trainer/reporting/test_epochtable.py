"""The table of epochs: numbers, columns, headers, rows; and a training that prints it."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from test.trainer.line import line_params, train
from tfaip.trainer.reporting.progress import EpochTable
from tfaip.util.terminal import text_width
from tfaip.util.text import metric_text, setting_text
from tfaip.util.typing import Logs


@pytest.fixture(autouse=True)
def _no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


class Table(EpochTable):
    def row(self, epoch: int, values: Logs, is_best: bool = False) -> str:
        return self.add(epoch, {**values, "lr": 3.1e-05}, 4.25, is_best)


def table(*names: str, monitor: str = "val_loss", only_loss: str | None = None, stage: str | None = None) -> Table:
    return Table(names, monitor, only_loss, "train.log", stage)


VALUES = [0.57, 0.0570049, 0.0057, 0.00057, -0.0057, 1.5528, 0.99996, 999.96, 12.345, -123.44, 123456, 12345678]
VALUES += [1.5e-12, -1.5e-300, 0.0, -0.0, float("nan")]
TEXTS = "0.5700 0.05700 0.00570 5.70e-4 -5.7e-3 1.553 1.000 1000 12.35 -123.4 123456 1.23e7 1.5e-12 -2e-300 0 0 nan"
SETTINGS = [0.001, 3.1e-05, 3.124e-05, 0.000279, -3.124e-05, 1.0, 2000000, 123456789, -0.0, float("nan")]
SETTING_TEXTS = "0.001 3.1e-5 3.12e-5 2.79e-4 -3.1e-5 1 2000000 1.23e8 0 nan"


def test_values_have_three_or_four_digits_and_times_fit() -> None:
    assert " ".join(map(metric_text, VALUES)) == TEXTS
    assert " ".join(map(setting_text, SETTINGS)) == SETTING_TEXTS
    rows = [table().add(1, {}, seconds) for seconds in (0, 4.25, 999.94, 999.96, 86400)]
    assert [row.split()[-1] for row in rows] == ["0.0", "4.2", "999.9", "1000", "86400"]


COMPLETE = """\
* new best val_acc; loss is ce
       |      train      |       val       |          LAV l0          |  rate   |
epoch  |    loss     acc |    loss     acc |    loss     acc eval_acc |      lr |    sec
-------+-----------------+-----------------+--------------------------+---------+-------
    7* |   1.553  0.5699 |  0.6481  0.8694 |  0.6481  0.8694   0.9000 |  3.1e-5 |    4.2"""


def test_columns_are_grouped_and_names_of_the_loss_are_shown_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    train_values = {"acc": 0.5699, "ce": 1.5528, "loss": 1.5528, "loss/mean_epoch": 1.5528}
    test_values = {"ce": 0.6481, "loss": 0.6481, "loss/mean_epoch": 0.6481, "acc": 0.8694}
    values = dict(train_values)
    values |= {f"lav_l0_{name}": value for name, value in {"eval_acc": 0.9, **test_values}.items()}
    values |= {f"val_{name}": value for name, value in test_values.items()}
    assert table(monitor="val_acc", only_loss="ce").row(7, values, is_best=True) == COMPLETE


NARROW = """\
* new best val_loss
3 more in train.log: lav_l0_eval_acc, lav_l0_worst_class, lav_l0_worst_class_acc
       |      train      |       val       |     LAV l0      |  rate   |
epoch  |    loss     acc |    loss     acc |    loss     acc |      lr |    sec
-------+-----------------+-----------------+-----------------+---------+-------"""


def test_what_does_not_fit_is_left_out_by_turns() -> None:
    """80 columns: the monitored value, the rate, the first of each group, the second of each group."""
    evaluator = ["lav_l0_eval_acc", "lav_l0_worst_class", "lav_l0_worst_class_acc"]
    names = ["loss", "acc", "val_loss", "val_acc", *evaluator, "lav_l0_loss", "lav_l0_acc"]
    header = table(*names).row(1, {}).splitlines()[:-1]
    assert header == NARROW.splitlines()
    assert {len(line) for line in header[2:]} == {79, 72}  # the titles end with the bar before the seconds


def test_names_take_two_lines_before_a_value_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["loss", "worst_class_acc", "val_loss", "val_worst_class_acc"]
    for width, first in ((77, "       |          train          "), (76, "       |       train       ")):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = table(*names).row(1, {}).splitlines()[1:]
        assert lines[0].startswith(first)
        assert len(lines) == (4 if width == 77 else 5)
    assert [line[:46].rstrip() for line in lines[:3]] == [
        "       |       train       |        val",
        "       |            worst_ |            worst_",
        "epoch  |    loss class_acc |    loss class_acc",
    ]


def test_metrics_have_room_before_the_losses_of_single_outputs() -> None:
    bases = ["loss", "form_loss", "size_loss", "form_acc", "size_mae"]
    lines = table(*bases, *(f"val_{base}" for base in bases)).row(1, {}).splitlines()
    assert lines[1] == "4 more in train.log: form_loss, size_loss, val_form_loss, val_size_loss"
    assert [line[:59].rstrip() for line in lines[2:5]] == [
        "       |          train          |           val",
        "       |           form_   size_ |           form_   size_",
        "epoch  |    loss     acc     mae |    loss     acc     mae",
    ]


def test_the_monitored_value_is_always_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = [f"metric_{number}" for number in range(20)]
    names = ["loss", *metrics, "val_loss", *(f"val_{name}" for name in metrics)]
    monkeypatch.setenv("COLUMNS", "40")
    shown = table(*names, monitor="val_metric_13").row(1, {"val_metric_13": 0.5}).splitlines()
    assert shown[1] == "41 more in train.log: loss, metric_0,..."
    assert shown[-1] == "    1  |  0.5000 |  3.1e-5 |    4.2"


@given(
    st.lists(st.tuples(st.text(max_size=30), st.floats()), max_size=15),
    st.integers(min_value=20, max_value=300),
    st.floats(),
)
def test_no_name_and_no_value_makes_a_line_longer_than_the_terminal(
    bases: list[tuple[str, float]], width: int, scheduled: float
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(width))
        values = {f"{kind}{base}": value for base, value in bases for kind in ("", "val_", "lav_l0_", "lav_l1_")}
        rows = table(*values, monitor="loss", stage="a stage of this name")
        lines = rows.row(99999, {**values, "schedule/graph.drop.rate": scheduled}, is_best=True).split("\n")
        again = rows.row(2, values)
    assert max(map(text_width, [*lines, again])) <= width
    bars = [
        [text_width(line[:i]) for i, char in enumerate(line) if char == "|"] for line in (lines[-3], lines[-1], again)
    ]
    assert bars.count(bars[0]) == 3 or any("|" in base for base, _ in bases)


def test_columns_appear_with_the_first_lav_and_stay() -> None:
    rows = table("loss", "val_loss")
    texts = [
        rows.row(1, {"loss": 1.0}),
        rows.row(2, {"loss": 1.0, "val_loss": 2.0}),
        rows.row(3, {"loss": 1.0, "val_loss": 2.0, "lav_l0_loss": 3.0}),
        rows.row(4, {"loss": 1.0}),
    ]
    assert texts[0].splitlines()[-1] == "    1  |   1.000 |         |  3.1e-5 |    4.2"
    assert texts[1] == "    2  |   1.000 |   2.000 |  3.1e-5 |    4.2"
    assert texts[2].splitlines()[1:] == [
        "epoch  |    loss |    loss |    loss |      lr |    sec",
        "-------+---------+---------+---------+---------+-------",
        "    3  |   1.000 |   2.000 |   3.000 |  3.1e-5 |    4.2",
    ]
    assert texts[3] == "    4  |   1.000 |         |         |  3.1e-5 |    4.2"


def test_what_is_scheduled_is_beside_the_rate() -> None:
    scheduled = {"schedule/model.graph.dropout": 0.25, "schedule/gen.max_length": 4000.0}
    shown = table("loss", stage="small").row(1, {"loss": 1.0, **scheduled})
    assert shown.splitlines() == [
        "stage small",
        "* new best val_loss",
        "       |  train  |         scheduled          |",
        "epoch  |    loss |      lr dropout max_length |    sec",
        "-------+---------+----------------------------+-------",
        "    1  |   1.000 |  3.1e-5    0.25       4000 |    4.2",
    ]


def test_colors_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"val_loss": 1.0}
    assert "\x1b" not in table().row(1, values, is_best=True)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    lines = table().row(1, values, is_best=True).splitlines()
    assert lines[2] == "\x1b[1mepoch  |    loss |      lr |    sec\x1b[0m"
    assert lines[4] == "    1\x1b[1;32m*\x1b[0m |   1.000 |  3.1e-5 |    4.2"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert "\x1b" not in table().row(1, values, is_best=True)


def test_the_header_comes_again_after_twenty_rows_and_with_another_width(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, values = table("loss", "val_loss", "val_acc"), {"loss": 1.0, "val_loss": 2.0, "val_acc": 0.5}
    lines = [rows.row(epoch, values).count("\n") for epoch in range(1, 43)]
    # Before the first row the legend, too.
    assert {epoch: count for epoch, count in enumerate(lines, start=1) if count} == {1: 4, 21: 3, 41: 3}
    monkeypatch.setenv("COLUMNS", "49")
    assert rows.row(43, values).splitlines()[0] == "1 more in train.log: val_acc"
    assert rows.row(44, values).count("\n") == 0


def test_names_are_hidden_since_they_mean_the_same_and_control_characters_are_replaced() -> None:
    assert "|    loss      ce     acc |" in table(monitor="loss").row(1, {"loss": 1.0, "ce": 1.0, "acc": 1.0})
    shown = table("loss", "a\tb\n\x1b[31m", "lav_l10_loss", "lav_l2_loss", monitor="loss").row(1, {})
    assert "a?b??[31m" in shown
    assert shown.splitlines()[1].partition("LAV")[2] == " l2  | LAV l10 |  rate   |"


def test_a_training_prints_the_table_and_logs_the_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One update per epoch, of rate 1, with the gradient x = 2: w is 0, -2, -4 before the epochs, the loss w * x."""
    root, captured = logging.getLogger("tfaip"), logging.getLogger().handlers[:]
    before = (root.handlers[:], root.propagate, root.level)
    root.handlers[:], root.propagate, logging.getLogger().handlers[:] = [], True, []  # as in a script
    train(line_params([2], None, tmp_path / "run", epochs=3, lr=1.0))
    root.handlers[:], root.propagate = before[:2]
    root.setLevel(before[2])
    logging.getLogger().handlers[:] = captured
    out = capsys.readouterr().out
    rows = [line.split("|")[:-1] for line in out.splitlines() if line[:6].strip(" *").isdigit()]
    expected = [["1*", "0 0", "1"], ["2*", "-4.000 4.000", "1"], ["3*", "-8.000 8.000", "1"]]
    assert [[" ".join(cell.split()) for cell in row] for row in rows] == expected
    assert "Results of epoch" not in out
    log = (tmp_path / "run" / "train.log").read_text()
    assert "Results of epoch 0003 distance: 8.0000 - loss: -8.0000 - loss/mean_epoch: -8.0000 - lr: 1.0000\n" in log
    assert "sec" not in log
