"""The tables of the page about stages are those of its commands; its files are those of the example."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from test.docs.test_docs import DOCS, FILE_NAME, blocks, write_files
from test.support.commands import REPOSITORY
from tfaip.scripts import preview_schedule

PAGE = "stages.md"
PAGE_TEXT = (DOCS / PAGE).read_text().replace("\\\n", "")
WITH_OUTPUT = re.compile(
    r"```shell\ntfaip-preview-schedule ([^\n]+)\n```\n\n```text\n(.*?)```$", re.MULTILINE | re.DOTALL
)


def test_commands_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_files(PAGE, tmp_path)
    monkeypatch.chdir(tmp_path)
    shown = WITH_OUTPUT.findall(PAGE_TEXT)
    assert len(shown) == 2
    for line, expected in shown:
        assert preview_schedule.main(shlex.split(line)) == 0
        assert capsys.readouterr().out.startswith(expected), line


def test_files_of_the_examples_are_shown() -> None:
    lines = REPOSITORY / "examples" / "lines"
    shown = {named[1]: code for code in blocks(PAGE, "yaml") if (named := FILE_NAME.match(code))}
    del shown["stages.yaml"]
    assert shown == {path.name: path.read_text() for path in lines.glob("*.yaml")}
    assert set(shown) == {"growing.yaml", "ctc_first.yaml"}
    (program,) = [code for code in blocks(PAGE, "python") if code.startswith("# aligned/loop.py\n")]
    assert program.partition("\n")[2] == (lines / "aligned" / "loop.py").read_text()


def test_all_other_commands_are_those_of_known_tests() -> None:
    typed = [line for code in blocks(PAGE, "shell") for line in code.replace("\\\n", "").splitlines()]
    others = [line for line in typed if not line.startswith("tfaip-preview-schedule ")]
    # The trainings: test/examples/test_stages.py; resuming: test/trainer/stages/test_resuming.py.
    named = [line.split()[-1] for line in others]
    grown = "model.graph.units=32"
    assert named == [
        grown,
        "main",
        "runs/growing",
        "runs/at_once",
        "runs/at_once",
        "runs/ctc_first",
        "runs/linear_first",
    ]
