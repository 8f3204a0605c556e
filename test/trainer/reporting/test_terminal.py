"""What a training shows on a real terminal."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, environment
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.progress import ProgressBar, ProgressLines, create_progress_display
from tfaip.util.terminal import announced, can_show_bar

COMMAND = ("-m", "tfaip.scripts.train", "test.support.tiny", "--trainer.random_seed", "1")


def on_a_terminal(run: Path, *flags: str, **variables: str) -> str:
    """All that a training writes to its terminal."""
    master, slave = os.openpty()
    env = {name: value for name, value in environment().items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, *COMMAND, "--trainer.output_dir", str(run), *flags],
        cwd=REPOSITORY,
        env={**env, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", **variables},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    written = b""
    with open(master, "rb", buffering=0) as terminal:
        try:
            while part := terminal.read(65536):
                written += part
        except OSError:  # the process has closed its side
            pass
    assert process.wait() == 0, written
    return written.decode()


def screen(written: str) -> list[str]:
    """The lines that are left on the terminal, without their colours."""
    lines, row = [""], 0
    for part in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if part == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif part == "\x1b[2K":
            lines[row] = ""
        elif part == "\x1b[1A":
            row -= 1
        elif part[0] not in "\r\x1b":
            lines[row] += part
    return [line.rstrip() for line in lines]


@pytest.mark.slow
def test_a_narrow_terminal_without_colours(tmp_path: Path) -> None:
    written = on_a_terminal(tmp_path / "run", COLUMNS="40", NO_COLOR="1")
    assert not re.search(r"\x1b\[[\d;]*m", written)
    bars = [line for line in re.split(r"[\r\n]|\x1b\[[?\d]*[A-Za-z]", written) if line.startswith("Epoch 4/4")]
    assert bars
    assert max(map(len, bars)) <= 40
    assert any("/11 " in line for line in bars)
    rows = [line[:6] for line in screen(written) if line[:6].strip(" *").isdigit()]
    assert rows == ["    1*", "    2*", "    3*", "    4*"]


def test_a_terminal_that_cannot_replace_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(create_progress_display(ProgressBarMode.AUTO), ProgressBar)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(create_progress_display(ProgressBarMode.AUTO), ProgressLines)
    with announced("building the model"):
        print("a line")
    assert capsys.readouterr().out == "a line\n"


def test_a_terminal_that_does_not_show_the_signs_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for encoding, shows in (("utf-8", True), ("latin-1", False)):
        with io.TextIOWrapper(io.BytesIO(), encoding=encoding) as output, monkeypatch.context() as patch:
            patch.setattr(output, "isatty", lambda: True, raising=False)
            patch.setattr(sys, "stdout", output)
            assert can_show_bar() is shows


def test_what_is_done_is_shown_meanwhile(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with announced("building the model"):
        assert "building the model ..." in capsys.readouterr().out
        print("a line")
    assert screen("building the model ..." + capsys.readouterr().out) == ["a line", "", ""]
