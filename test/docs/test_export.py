"""The page about exported models: its commands and its client are run, one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.docs.test_docs import commands, short_commands, write_files
from test.support.commands import finish_command, run_several, start_module

PAGE = "export.md"


@pytest.mark.slow
def test_commands_and_client(tmp_path: Path) -> None:
    pytest.importorskip("tf2onnx")
    write_files(PAGE, tmp_path)
    assert [command[0] for command in commands(PAGE)] == ["train", "export", "export"]
    result = run_several(short_commands(PAGE), cwd=tmp_path)
    assert result.rc == 0, result
    formats = [graph["format"] for graph in json.loads((tmp_path / "check.json").read_text())["graphs"]]
    assert formats == ["serve", "keras", "onnx"]
    client = finish_command(start_module("client", cwd=tmp_path))
    assert client.rc == 0, client
    assert "'prob': TensorShape([3, 10])" in client.stdout
