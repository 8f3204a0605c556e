"""The benchmark of the input pipeline as users call it."""

from __future__ import annotations

import logging
import os
import re
import signal
from typing import Any

import pytest

from test.data.pipeline.test_preload import DamagedParams
from test.data.support import make_pipeline, rows
from tfaip.data.pipeline.benchmark import Stage, StageTimes
from tfaip.scripts.benchmark_input_pipeline import main
from tfaip.trainer.tools import inputbenchmark
from tfaip.trainer.tools.inputbenchmark import advice, stage_lines

TINY = "test.support.tiny"


@pytest.fixture
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("STAGES_S", "CEILING_S", "REPORT_S"):
        monkeypatch.setattr(inputbenchmark, name, 0.1)


@pytest.mark.usefixtures("_short")
def test_it_shows_parts_limit_rate_and_advice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([TINY, "--time_limit", "0.5", "--train.batch_size", "8", "--trainer.preload_data", "True"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^training data is in memory after \d", out, re.MULTILINE)
    for name in ("generator", "Jitter", "batching", "together", "transport, with workers"):
        assert re.search(rf"^  {name} +[\d.]+ ms", out, re.MULTILINE), out
    assert re.search(r"^the training can read [\d,]+ samples/s if batches are ready$", out, re.MULTILINE)
    assert len(re.findall(r"^ +\d\.\d s +[\d,]+ samples/s +[\d.]+ MB/s   longest wait", out, re.MULTILINE)) >= 2
    (samples, batches) = re.findall(r"^([\d,]+) samples in ([\d,]+) batches: ", out, re.MULTILINE)[0]
    assert 0 < int(samples.replace(",", "")) <= 8 * int(batches.replace(",", ""))
    assert re.search(r"^(most of the time goes into|the pipeline is about as fast as)", out, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.usefixtures("_short")
def test_it_shows_the_load_of_workers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([TINY, "--time_limit", "1.5", "--train.num_processes", "1"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"   1 workers \d+% busy, waited for \d+% of the time$", out, re.MULTILINE)


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
    assert main([TINY, "--train.num_processes", "1"]) == code
    out, err = capsys.readouterr()
    assert "reading until Ctrl-C:" in out
    assert re.search(r"^[\d,]+ samples in [\d,]+ batches: ", out, re.MULTILINE)
    assert err == ""


def test_samples_that_fail_may_be_skipped(caplog: pytest.LogCaptureFixture) -> None:
    params: Any = {"batch_size": 2, "num_processes": 0}
    assert inputbenchmark._stage_times(make_pipeline(DamagedParams(rows(4)), on_error="skip", **params)) is None
    assert "the parts are not timed, since a sample failed: OSError: cannot be read" in caplog.text
    with pytest.raises(OSError, match="cannot be read"):
        inputbenchmark._stage_times(make_pipeline(DamagedParams(rows(4)), **params))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which scenario? expected: tfaip-benchmark-input-pipeline SCENARIO"),
        (["--time_limit", "3"], "which scenario?"),
        ([TINY, "--time_limit", "0"], "time_limit is 0.0, expected seconds above 0"),
        ([TINY, "--train.batch_siz", "3"], "batch_size"),
        (["no.such.scenario"], "no.such"),
    ],
)
def test_mistakes_are_told_in_a_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


TIMES = StageTimes([Stage("generator", 0.001, True), Stage("Slow", 0.008, True), Stage("batching", 0.001, False)], 2e-4)


def test_the_table() -> None:
    assert list(stage_lines(TIMES)) == [
        "time per sample in one process:",
        "  generator                          1.0000 ms   10%  can run in workers",
        "  Slow                               8.0000 ms   80%  can run in workers",
        "  batching                           1.0000 ms   10%",
        "  together                          10.0000 ms  100 samples/s",
        "  transport, with workers            0.2000 ms",
    ]


def test_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    assert list(advice(TIMES, rate=900, ceiling=1000)) == [
        "the pipeline is about as fast as the training can read: only larger batches may help"
    ]
    assert list(advice(TIMES, rate=100, ceiling=1000)) == [
        "most of the time goes into Slow (80%)",
        "at most so many samples/s with workers (--train.num_processes): 1: 111, 2: 222, 4: 444, 8: 833",
    ]
    here = StageTimes([Stage("generator", 0.001, True), Stage("Slow", 0.004, False)], 0.0)
    assert list(advice(here, rate=100, ceiling=1000)) == [
        "most of the time goes into Slow (80%)",
        "Slow cannot run in workers here: make it faster, or see docs/data.md",
    ]
