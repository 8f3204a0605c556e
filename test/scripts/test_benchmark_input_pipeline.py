"""The benchmark of the input pipeline as users call it."""

from __future__ import annotations

import logging
import os
import re
import signal

import numpy as np
import pytest

from test.data.faults import FilesParams, SlowParams
from test.data.support import Drop, Pair, Repeat, make_pipeline, rows
from test.support.commands import exit_code
from tfaip.data.pipeline.batching import Batch
from tfaip.scripts.benchmark_input_pipeline import main
from tfaip.trainer.tools import inputbenchmark
from tfaip.trainer.tools.inputbenchmark import Part, Throughput, measure_parts

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
    assert len(re.findall(r"^ +\d\.\d s +[\d,]+ samples/s +[\d.]+ MB/s   longest wait", out, re.MULTILINE)) >= 2
    (samples, batches) = re.findall(r"^([\d,]+) samples in ([\d,]+) batches: ", out, re.MULTILINE)[0]
    assert 0 < int(samples.replace(",", "")) <= 8 * int(batches.replace(",", ""))


class SignalAtRate(logging.Handler):
    """Sends this process a signal when the first rate is shown."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__()
        self.number = number

    def emit(self, record: logging.LogRecord) -> None:
        if "longest wait" in record.getMessage():
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
    assert re.search(r"   1 workers \d+% busy, waited for \d+% of the time$", out, re.MULTILINE)
    assert re.search(r"^[\d,]+ samples in [\d,]+ batches: ", out, re.MULTILINE)
    assert err == ""


def test_the_table(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    parts = [Part("generator", 0.001, True), Part("Slow", 0.008, True), Part("batching", 0.001, False)]
    for given in (parts, []):
        monkeypatch.setattr(inputbenchmark, "measure_parts", lambda pipeline, seconds, given=given: given)
        inputbenchmark.log_parts(make_pipeline([]))
    assert caplog.messages == [
        "time per sample in one process:",
        "  generator                          1.0000 ms   10%  can run in workers",
        "  Slow                               8.0000 ms   80%  can run in workers",
        "  batching                           1.0000 ms   10%",
        "  together                          10.0000 ms  100 samples/s",
    ]


def test_rates_begin_behind_the_first_batch() -> None:
    done = Throughput()
    assert done.rate(0) == 0
    for size, seconds in ((10, 3.0), (10, 0.5), (10, 1.0), (10, 0.5)):
        batch = Batch({"x": np.zeros([size, 3], "float32")}, {"y": np.zeros([size, 1], "int64")}, [None] * size)
        done.add(batch, seconds)
    assert (done.batches, done.samples, done.seconds, done.first_s, done.longest_s) == (4, 40, 5.0, 3.0, 1.0)
    assert done.rate(done.samples) == 30 / 2
    assert done.rate(done.nbytes) == pytest.approx(30 * 20 / 2)


def test_parts_show_where_the_time_goes() -> None:
    processors = [Drop(every=3), SlowParams(seconds=0.005), Repeat(), Pair()]
    parts = measure_parts(make_pipeline(rows(20), processors, batch_size=2), 0.4)
    assert [part.name for part in parts] == ["generator", "Drop", "Slow", "Repeat", "Pair", "batching"]
    # The samples are in memory; what comes behind the first generating processor runs in one process.
    assert [part.in_workers for part in parts] == [False, True, True, False, False, False]
    # Each of the samples came once on average (0, 1 or 2 times), and two of them made one. Other parts may have waited
    # for a busy machine, so that nothing is known of their times.
    assert parts[2].sample_s > 0.005
    assert measure_parts(make_pipeline([]), 10.0) == []
    longest = make_pipeline(rows(20), [Drop(every=3)], batch_size=2, max_element_length=3)
    for pipeline, in_workers in ((longest, [False, True, False]), (make_pipeline(FilesParams()), [True, True])):
        assert [part.in_workers for part in measure_parts(pipeline, 0.5)] == in_workers
