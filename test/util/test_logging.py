"""What is logged: the level, the console, and the file of a run."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support.beside import full_disk
from tfaip.errors import UsageError
from tfaip.util.logging import CONSOLE_TEXT, ROOT, RunLog, is_debug, log_level, logger, setup_console, timed


@pytest.fixture(autouse=True)
def _own_root(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The toolkit's logger as in a fresh process, and again as it was."""
    monkeypatch.delenv("TFAIP_LOG_LEVEL", raising=False)
    root = logging.getLogger(ROOT)
    before = (root.level, root.propagate, root.handlers[:])
    root.setLevel(logging.NOTSET)
    root.handlers[:] = []
    yield
    root.level, root.propagate, root.handlers[:] = before


def test_names_of_loggers() -> None:
    assert logger("tfaip.trainer.loop").name == "tfaip.trainer.loop"
    assert logger("my_scenario.model").name == "tfaip.my_scenario.model"
    assert logger("tfaipish").name == "tfaip.tfaipish"


@pytest.mark.parametrize(
    ("value", "level", "debug"),
    [(None, 20, False), ("info", 20, False), ("DEBUG", 10, True), ("warning", 30, False), ("critical", 50, False)],
)
def test_levels(value: str | None, level: int, debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if value is not None:
        monkeypatch.setenv("TFAIP_LOG_LEVEL", value)
    assert (log_level(), is_debug()) == (level, debug)
    for wrong in ("loud", ""):
        monkeypatch.setenv("TFAIP_LOG_LEVEL", wrong)
        with pytest.raises(UsageError, match=f"TFAIP_LOG_LEVEL is '{wrong}', expected one of debug, info, warning"):
            log_level()


def test_console_prints_plain_lines_and_marks_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    setup_console()
    setup_console()
    log = logger("tfaip.test")
    log.debug("hidden")
    log.info("epoch %d", 3)
    log.warning("careful")
    log.error("broken")
    captured = capsys.readouterr()
    assert captured.out == "epoch 3\nwarning: careful\nerror: broken\n"
    assert captured.err == ""


def test_a_record_may_look_different_on_the_console(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup_console()
    with RunLog() as run_log:
        run_log.write_to(tmp_path / "train.log")
        logger("tfaip.test").info("loss: %d", 3, extra={CONSOLE_TEXT: "| 3 |"})
        logger("tfaip.test").warning("loss: %d", 4, extra={CONSOLE_TEXT: "| 4 |"})
    assert capsys.readouterr().out == "| 3 |\nwarning: | 4 |\n"
    lines = (tmp_path / "train.log").read_text().splitlines()
    assert [line.partition("tfaip.test: ")[2] for line in lines] == ["loss: 3", "loss: 4"]


def test_work_that_takes_a_second_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    setup_console()
    times = iter([10.0, 10.99, 20.0, 21.0, 30.0])
    for work in ("short work", "long work"):
        with timed(logger("tfaip.test"), work, times.__next__):
            pass
    with pytest.raises(KeyError), timed(logger("tfaip.test"), "failed work", times.__next__):
        raise KeyError
    assert capsys.readouterr().out == "long work took 1.0 s\n"


def test_run_log_keeps_earlier_lines_and_appends_to_those_of_an_interrupted_run(tmp_path: Path) -> None:
    before = logging.getLogger(ROOT).handlers[:]
    path = tmp_path / "train.log"
    with RunLog():
        logger("tfaip.test").info("a run without output")
    log = logger("tfaip.test")
    log.warning("before the run")
    with RunLog() as run_log:
        log.warning("early %s", "warning")
        assert not path.exists()
        run_log.write_to(path)
        log.info("late line")
    log.info("after the run")
    with RunLog() as run_log:
        run_log.write_to(path)
        log.info("resumed")
    shown = ["WARNING tfaip.test: early warning", "INFO    tfaip.test: late line", "INFO    tfaip.test: resumed"]
    assert [line.split(" ", 2)[2] for line in path.read_text().splitlines()] == shown
    assert logging.getLogger(ROOT).handlers == before


def test_run_log_ends_with_an_exception_too(tmp_path: Path) -> None:
    before = logging.getLogger(ROOT).handlers[:]

    def fail() -> None:
        with RunLog() as run_log:
            run_log.write_to(tmp_path / "train.log")
            logger("tfaip.test").error("about to fail")
            raise error

    mistake = UsageError("a mistake")
    mistake.add_note("a note")
    for error in (ZeroDivisionError("by zero"), mistake):
        with pytest.raises(type(error)):
            fail()
    assert logging.getLogger(ROOT).handlers == before
    first, last, *place = (tmp_path / "train.log").read_text().splitlines()
    assert first.endswith("ERROR   tfaip.test: about to fail")
    assert last.endswith("ERROR   tfaip: the run ended with ZeroDivisionError: by zero")
    # Where it was raised; a mistake of the user is one line.
    assert place[-3] == "ZeroDivisionError: by zero"
    assert place[-1].endswith("ERROR   tfaip: the run ended with UsageError: a mistake; a note")


def test_a_full_disk_is_reported_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with full_disk(), RunLog() as run_log:
        run_log.write_to(tmp_path / "train.log")
        for _ in range(50):
            logger("test").warning("x" * 100)
    assert len((tmp_path / "train.log").read_text()) <= 1000
    assert capsys.readouterr().err == f"warning: {tmp_path / 'train.log'} cannot be written: File too large\n"
