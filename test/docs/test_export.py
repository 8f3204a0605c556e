"""The page about exported models: its commands and its client are run, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from test.docs.test_docs import commands, write_files
from test.support.commands import CommandResult, finish_command, start_python

PAGE = "export.md"


def test_commands_and_client(tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    pytest.importorskip("tf2onnx")
    write_files(PAGE, tmp_path)
    assert [command[0] for command in commands(PAGE)] == ["train", "export", "check_export"]
    for command in commands(PAGE):
        result = run_command(*command, cwd=tmp_path)
        assert result.rc == 0, f"{command}\n{result}"
    formats = [graph["format"] for graph in json.loads((tmp_path / "check.json").read_text())["graphs"]]
    assert formats == ["serve", "keras", "onnx"]
    client = finish_command(start_python("client.py", cwd=tmp_path))
    assert client.rc == 0, client
    assert "'prob': TensorShape([3, 10])" in client.stdout
