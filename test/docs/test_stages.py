"""The tables of the page about stages are those of its commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from test.docs.test_docs import DOCS, write_files
from tfaip.scripts import preview_schedule

PAGE = "stages.md"
WITH_OUTPUT = re.compile(
    r"```shell\ntfaip-preview-schedule ([^\n]+)\n```\n\n```text\n(.*?)```$", re.MULTILINE | re.DOTALL
)


def test_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = WITH_OUTPUT.findall((DOCS / PAGE).read_text())
    assert len(shown) == 3
    for line, expected in shown:
        assert preview_schedule.main(shlex.split(line)) == 0
        assert capsys.readouterr().out.startswith(expected), line
