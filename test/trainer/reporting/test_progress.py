"""What is printed while a model trains: bars, lines, the table of epochs."""

import io
import logging
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from test.trainer.line import LineScenario, line_params, train
from tfaip.errors import UsageError
from tfaip.scripts.common.parser import TrainingParser
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.progress import EpochTable, create_progress_display, result_line, shown_once
from tfaip.util.terminal import (
    NotebookProgress,
    ProgressBar,
    ProgressDisplay,
    text_width,
    track,
)
from tfaip.util.text import metric_text, setting_text
from tfaip.util.typing import Logs


def test_a_bar_needs_a_terminal_that_can_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for term, encoding, automatic in [
        *(("xterm", "utf-8", ProgressBar), ("dumb", "utf-8", ProgressDisplay), ("xterm", "latin-1", ProgressDisplay)),
    ]:
        monkeypatch.setenv("TERM", term)
        with io.TextIOWrapper(io.BytesIO(), encoding=encoding) as output, monkeypatch.context() as patch:
            patch.setattr(output, "isatty", lambda: True, raising=False)
            patch.setattr(sys, "stdout", output)
            modes = [ProgressBarMode.AUTO, ProgressBarMode.BAR, ProgressBarMode.LINES, ProgressBarMode.PLAIN]
            found = [type(create_progress_display(mode, "loss", None)) for mode in modes]
            assert found == [automatic, ProgressBar, ProgressDisplay, ProgressDisplay]
    assert type(create_progress_display(ProgressBarMode.AUTO, "loss", None)) is ProgressDisplay  # no terminal


@pytest.mark.parametrize(
    ("monitor", "first"), [("val_acc", "acc"), ("val_loss/mean_epoch", "loss"), ("ce", "loss"), ("lav_l0_cer", "loss")]
)
def test_each_number_is_shown_once_and_the_monitored_one_first(monitor: str, first: str) -> None:
    values = {"loss": 1.0, "loss/mean_epoch": 1.0, "ce": 1.0, "acc": 0.5, "lr": 0.1}
    names = list(shown_once(values, monitor, "ce"))
    assert (names[0], sorted(names)) == (first, ["acc", "loss", "lr"])
    assert list(shown_once({"ce": 1.0, "acc": 0.5}, "acc", "ce")) == ["acc", "ce"]  # there is no loss


@pytest.fixture
def _on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is drawn though the output is captured."""
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "200")):
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_on_a_terminal")
def test_the_bar_shows_how_far_and_how_good(capsys: pytest.CaptureFixture[str]) -> None:
    read: list[int] = []
    bar = ProgressBar("batch")
    bar.start("Epoch 3/10", total=8, done=2)
    for done in (3, 4, 5):
        bar.advance(done, lambda done=done: read.append(done) or {"loss": 0.25, "acc": 0.5})  # type: ignore[misc]
    bar.stop()
    shown = capsys.readouterr().out
    assert all(text in shown for text in ("Epoch 3/10", "3/8", "loss 0.2500, acc 0.5000, "))
    # Reading values is not free: not for every batch.
    assert read == [3]
    bar.start("Validation", total=None)
    bar.advance(1)
    bar.stop()
    assert "1/?" in capsys.readouterr().out


@pytest.mark.usefixtures("_on_a_terminal")
def test_items_are_passed_on_with_a_bar(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track("abc", "Work", 3, shown=False)) == ["a", "b", "c"]
    assert capsys.readouterr().out == ""
    assert list(track("abc", "Work", 3, shown=True)) == ["a", "b", "c"]
    assert "1/3" in capsys.readouterr().out
    monkeypatch.setattr("tfaip.util.terminal.is_notebook", lambda: True)
    monkeypatch.setattr(NotebookProgress, "refresh_s", 0.0)
    assert list(track("abc", "Work", 3, shown=True)) == ["a", "b", "c"]
    shown = capsys.readouterr().out
    assert re.findall(r"Work: item \d of 3", shown) == [f"Work: item {number} of 3" for number in (1, 2, 3)]
    assert shown.rpartition("\r ")[2].strip() == ""


class Clock:
    """Time that passes only when a test says so."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_without_a_terminal_a_line_per_minute(caplog: pytest.LogCaptureFixture) -> None:
    """Batches 100 to 390 at one per second: lines after 60, 120 ... seconds of an epoch."""
    read: list[int] = []
    clock = Clock()
    lines = ProgressDisplay("batch", clock=clock)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        lines.start("Epoch 3/10", total=400, done=100)
        for done in range(101, 391):
            clock.seconds += 1
            lines.advance(done, lambda done=done: read.append(done) or {"loss": 0.25, "lr": 1e-4})  # type: ignore[misc]
        lines.start("Validation", total=None)
        clock.seconds += 59
        lines.advance(1)
        clock.seconds += 2
        lines.advance(122)
    shown = [f"{160 + 60 * i} of 400, 1/s, {4 - i}:00 left, loss 0.2500, lr 1.00e-4" for i in range(4)]
    assert caplog.messages == [*(f"Epoch 3/10: batch {text}" for text in shown), "Validation: batch 122, 2/s"]
    assert read == [160, 220, 280, 340]  # reading values waits for the device


def test_the_line_of_an_epoch_is_what_tools_parse() -> None:
    line = result_line(7, {"val_loss": 0.25, "acc": 0.98765, "loss": 1.0, "lr": 3.1e-05, "bad": float("nan")})
    assert line == "Results of epoch 0007 acc: 0.9877 - bad: nan - loss: 1.0000 - lr: 3.1e-05 - val_loss: 0.2500"
    assert result_line(12345, {}) == "Results of epoch 12345 "


def test_numbers_of_tfaip_1_2() -> None:
    """They mean the same on the command line, in files and in Python."""
    parser, params = TrainingParser("train", "", LineScenario), line_params([1])
    for number, mode in enumerate(["plain", "auto", "lines"]):
        assert parser.parse(["--progress_bar_mode", str(number)]).trainer.progress_bar_mode is ProgressBarMode(mode)
        assert type(params).from_dict({**params.to_dict(), "progress_bar_mode": number}).progress_bar_mode == mode
    params.progress_bar_mode = 0  # type: ignore[assignment]
    assert train(params).params.to_dict()["progress_bar_mode"] == "plain"
    with pytest.raises(UsageError, match=r"expected auto \| bar \| lines \| plain, got '3'"):
        parser.parse(["--progress_bar_mode", "3"])


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


def test_the_header_comes_again_after_twenty_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, values = table("loss", "val_loss", "val_acc"), {"loss": 1.0, "val_loss": 2.0, "val_acc": 0.5}
    lines = [rows.row(epoch, values).count("\n") for epoch in range(1, 43)]
    # Before the first row the legend, too.
    assert {epoch: count for epoch, count in enumerate(lines, start=1) if count} == {1: 4, 21: 3, 41: 3}
    # A new value has a column from then on.
    assert rows.row(43, {**values, "lav_l0_acc": 0.25}).splitlines()[1].split("|")[3].split() == ["acc"]
    assert rows.row(43, values) == "   43  |   1.000 |   2.000  0.5000 |         |  3.1e-5 |    4.2"
    # Another name of the loss has none.
    assert "\n" not in rows.row(44, {**values, "loss/mean_epoch": 1.0, "val_loss/mean_epoch": 2.0})
    # Colours on a terminal only.
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[1;32m*\x1b[0m |   1.000" in rows.row(45, values, is_best=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in rows.row(46, values, is_best=True)


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
