"""CPU time of each case, warm commands and other child processes included: what belongs to the quick suite.

A case above a second is marked `slow`, or `guard` if `make test` keeps it for what it protects. The summary lists the
others; with `--strict-times` the run fails if one of them took more than three seconds, without its fixtures, which
others share. `--case-times FILE` writes all times as JSON.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support.warm.client import server_pids

LISTED_S = 1.0
REFUSED_S = 3.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
TOTAL, CALL = "cpu_s", "call_cpu_s"
EXEMPT = ("slow", "guard", "series")


def cpu_time() -> float:
    """Return the CPU seconds of this process, of its children that have ended, and of the commands of warm servers."""
    times = os.times()
    total = time.process_time() + times.children_user + times.children_system
    for pid in server_pids():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[13]) + int(fields[14])) / TICKS_PER_S  # cutime, cstime
    return total


class CaseTimes:
    """Plugin of pytest that measures each case, in each of its processes, and sums up at the end."""

    def __init__(self, strict: bool, file: Path | None) -> None:
        self._strict = strict
        self._file = file
        self._start = self._call_start = 0.0
        self._times: dict[str, float] = {}
        self._unmarked: dict[str, float] = {}
        self._refused: set[str] = set()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Begin a case."""
        self._start = cpu_time()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Begin a case without its fixtures."""
        self._call_start = cpu_time()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        """End a case: its time goes into the report that the main process gets."""
        report = yield
        if call.when == "call":
            report.user_properties.append((CALL, round(cpu_time() - self._call_start, 3)))
        elif call.when == "teardown":
            report.user_properties.append((TOTAL, round(cpu_time() - self._start, 3)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the times of all processes."""
        measured = dict(report.user_properties)
        is_unmarked = not any(mark in report.keywords for mark in EXEMPT)
        if is_unmarked and report.when == "call" and measured.get(CALL, 0.0) > REFUSED_S:
            self._refused.add(report.nodeid)
        if report.when == "teardown":
            self._times[report.nodeid] = seconds = measured.get(TOTAL, 0.0)
            if is_unmarked and seconds > LISTED_S:
                self._unmarked[report.nodeid] = seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a case belongs to the slow ones."""
        if hasattr(session.config, "workerinput"):
            return
        if self._file is not None:
            self._file.write_text(json.dumps(self._times, indent=0, sort_keys=True))
        if self._strict and session.exitstatus == 0 and self._refused:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the unmarked cases above a second."""
        if not self._unmarked:
            return
        terminalreporter.section(f"CPU time above {LISTED_S:g} s, marked neither slow nor guard")
        for name, seconds in sorted(self._unmarked.items(), key=lambda row: -row[1]):
            refused = "  not allowed" if self._strict and name in self._refused else ""
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}{refused}")
