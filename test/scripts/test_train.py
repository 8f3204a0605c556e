"""What `tfaip-train` tells before it imports a backend."""

from __future__ import annotations

import json
from pathlib import Path

from test.support.commands import finish_command, start_python

CODE = """
import json, sys
from tfaip.scripts.train import main
rc = main(sys.argv[1:])
print(json.dumps([rc, *(name for name in ("keras", "tensorflow", "jax") if name in sys.modules)]))
"""


def test_an_occupied_output_dir_is_told_before_a_backend_is_imported(tmp_path: Path) -> None:
    (tmp_path / "trainer_params.json").write_text("{}")
    (tmp_path / "history.json").write_text('{"1": {"values": {"loss": 1.0}}}')
    flags = ["tfaip.scenario.tutorial.min", "--trainer.output_dir", tmp_path]
    result = finish_command(start_python("-c", CODE, *flags))
    assert json.loads(result.stdout) == [2]
    assert f"error: {tmp_path} holds another run: " in result.stderr
