"""Messages of the user's own modules: in the console and the log of a run, and what an application set up stays."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path

import pytest

from tfaip.components.userlogs import console_unless_configured, user_logs
from tfaip.params import ParamsBase
from tfaip.util.logging import ROOT, RunLog, only_warnings, setup_console


class PartParams(ParamsBase):
    number: int = 1


class OwnParams(ParamsBase):
    parts: list[PartParams] = field(default_factory=lambda: [PartParams()])


# As if they came from packages of the user's, once they are made in this module.
OwnParams()
PartParams.__module__, OwnParams.__module__ = "own_parts.params", "own_scenario.params"


@pytest.fixture(autouse=True)
def _fresh_loggers() -> Iterator[None]:
    """The toolkit's logger as in a fresh process, and again as it was; the user's must not change."""
    root = logging.getLogger(ROOT)
    before = (root.level, root.propagate, root.handlers[:])
    root.setLevel(logging.NOTSET)
    root.handlers[:], root.propagate = [], True
    yield
    root.level, root.propagate, root.handlers[:] = before
    for name in ("own_scenario", "own_parts"):
        own = logging.getLogger(name)
        assert (own.level, own.propagate, own.handlers) == (logging.NOTSET, True, [])


def log_everywhere() -> None:
    logging.getLogger("own_scenario.data").info("of the scenario")
    logging.getLogger("own_parts.params").warning("of a part")
    logging.getLogger("own_scenario").debug("too much")
    logging.getLogger("another_library").info("not ours")


def test_messages_reach_the_console_and_the_file_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setup_console()
    with RunLog() as run_log, user_logs(OwnParams()), user_logs(OwnParams):
        log_everywhere()
        run_log.write_to(tmp_path / "train.log")
        logging.getLogger("own_scenario").info("late")
        with only_warnings():
            logging.getLogger("own_scenario").info("the chief says it")
    log_everywhere()
    assert capsys.readouterr().out == "of the scenario\nwarning: of a part\nlate\n"
    lines = (tmp_path / "train.log").read_text().splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == [
        "INFO    own_scenario.data: of the scenario",
        "WARNING own_parts.params: of a part",
        "INFO    own_scenario: late",
    ]


def test_an_application_gets_its_own_messages_once(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Pytest's handlers are there, as those of an application."""
    with RunLog() as run_log, user_logs(OwnParams()), console_unless_configured():
        run_log.write_to(tmp_path / "train.log")
        log_everywhere()
    assert [record.message for record in caplog.records] == ["of the scenario", "of a part"]
    assert len((tmp_path / "train.log").read_text().splitlines()) == 2


def test_a_level_of_the_users_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    own = logging.getLogger("own_scenario.quiet")
    monkeypatch.setattr(own, "level", logging.ERROR)
    setup_console()
    with user_logs(OwnParams):
        own.warning("hidden")
        own.error("shown")
    assert capsys.readouterr().out == "error: shown\n"
