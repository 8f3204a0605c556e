"""The benchmark of the input pipeline as users call it."""

import logging
import os
import re
import signal

import pytest

from test.data.faults import SlowParams
from test.data.support import Drop, Pair, Repeat, make_pipeline, rows
from test.support.commands import exit_code
from tfaip.scripts.benchmark_input_pipeline import main
from tfaip.trainer.tools import inputbenchmark
from tfaip.trainer.tools.inputbenchmark import measure_parts

TINY = "test.support.tiny"


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PARTS_S", "REPORT_S"):
        monkeypatch.setattr(inputbenchmark, name, 0.1)


@pytest.mark.usefixtures("_short")
def test_it_shows_parts_and_rates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([TINY, "--time_limit", "0.5", "--train.batch_size", "8", "--trainer.preload_data", "True"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^training data is in memory after \d", out, re.MULTILINE)
    for name in ("generator", "Jitter", "batching", "together"):
        assert re.search(rf"^  {name} +[\d.]+ ms", out, re.MULTILINE), out
    assert len(re.findall(r"^ +\d\.\d s +[1-9][\d,]* samples/s$", out, re.MULTILINE)) >= 2


class SignalAtRate(logging.Handler):
    """Sends this process a signal when the first rate is shown."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.number = number

    def emit(self, record: logging.LogRecord) -> None:
        if " s " in record.getMessage() and record.getMessage().endswith("samples/s"):
            os.kill(os.getpid(), self.number)
            logging.getLogger("tfaip").removeHandler(self)


@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_the_summary(
    number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("tfaip").addHandler(SignalAtRate(number))
    assert exit_code(main, [TINY, "--train.num_processes", "1"]) == code
    out, err = capsys.readouterr()
    assert "reading until Ctrl-C:" in out
    assert len(re.findall(r"^ +\d+\.\d s +[\d,]+ samples/s$", out, re.MULTILINE)) == 2
    assert err == ""


def test_parts_show_where_the_time_goes() -> None:
    processors = [Drop(every=3), SlowParams(seconds=0.005), Repeat(), Pair()]
    parts = measure_parts(make_pipeline(rows(20), processors, batch_size=2), 0.4)
    assert [name for name, _ in parts] == ["generator", "Drop", "Slow", "Repeat", "Pair", "batching"]
    # Each of the samples came once on average (0, 1 or 2 times), and two of them made one. Other parts may have waited
    # for a busy machine, so that nothing is known of their times.
    assert parts[2][1] > 0.005
    assert measure_parts(make_pipeline([]), 10.0) == []
