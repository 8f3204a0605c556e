"""Trainer params that are made for a scenario are found in a process that has not made them yet."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from test.support.commands import finish_command, start_module

pytestmark = pytest.mark.filterwarnings("ignore:.* is deprecated since tfaip:DeprecationWarning")


@pytest.mark.slow
def test_made_trainer_params_are_read_by_another_process(tmp_path: Path) -> None:
    from test.clients.words.scenario import WordsScenario

    params = WordsScenario.default_trainer_params()
    params.epochs = 17
    text = "import pickle, warnings\nwarnings.simplefilter('ignore')\nprint(pickle.loads(bytes.fromhex('{}')).epochs)\n"
    (tmp_path / "reader.py").write_text(text.format(pickle.dumps(params).hex()))
    result = finish_command(start_module("reader", cwd=tmp_path))
    assert (result.rc, result.stdout) == (0, "17\n"), result
