"""CPU time of each case, warm commands and other child processes included: what belongs to the quick suite.

A case above a second is marked `slow`, or `guard` if `make test` keeps it for what it protects. The summary lists the
others; with `--strict-times` the run fails if one of them took more than three seconds, without its fixtures, which
others share.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support.warm.client import server_pids

LISTED_S, REFUSED_S = 1.0, 3.0
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
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

    def __init__(self, strict: bool) -> None:
        self._strict = strict
        self._start = 0.0
        self._unmarked: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        """Begin a case without its fixtures."""
        self._start = cpu_time()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        """End a case: its time goes into the report that the main process gets."""
        report = yield
        if call.when == "call":
            report.user_properties.append(("cpu_s", round(cpu_time() - self._start, 3)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the times of all processes."""
        seconds = dict(report.user_properties).get("cpu_s", 0.0)
        if report.when == "call" and seconds > LISTED_S and not any(mark in report.keywords for mark in EXEMPT):
            self._unmarked[report.nodeid] = seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run if a case belongs to the slow ones."""
        is_main = not hasattr(session.config, "workerinput")
        if is_main and self._strict and session.exitstatus == 0 and max(self._unmarked.values(), default=0) > REFUSED_S:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the unmarked cases above a second."""
        if self._unmarked:
            terminalreporter.section(f"CPU time above {LISTED_S:g} s, marked neither slow nor guard")
        for name, seconds in sorted(self._unmarked.items(), key=lambda row: row[1]):
            refused = "  not allowed" if self._strict and seconds > REFUSED_S else ""
            terminalreporter.write_line(f"{seconds:7.1f} s  {name}{refused}")
