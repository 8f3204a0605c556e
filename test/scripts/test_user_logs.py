"""What a scenario logs is printed and kept, of data workers too."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.support.commands import finish_command, start_module
from test.support.runs import copy_tiny, printed_epochs

SCENARIO = """
import logging
from tfaip.imports import DataProcessorParams, MappingDataProcessor
from tiny.scenario import TinyScenario

log = logging.getLogger(__name__)

class ChattyParams(DataProcessorParams):
    @staticmethod
    def cls():
        return ChattyProcessor

class ChattyProcessor(MappingDataProcessor[ChattyParams]):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        log.info("a processor is there")

    def apply(self, sample):
        log.warning("%s: 100%", "a sample") if self.mode.value == "training" else None
        return sample

class Chatty(TinyScenario):
    @classmethod
    def default_trainer_params(cls):
        params = super().default_trainer_params()
        params.scenario.data.pre_proc.processors = [ChattyParams()]
        params.gen.setup.train.num_processes, params.epochs = 1, 1
        params.output_dir = "run"
        return params
"""


@pytest.mark.slow
def test_messages_of_a_scenario(tmp_path: Path) -> None:
    copy_tiny(tmp_path)
    (tmp_path / "chatty.py").write_text(SCENARIO.replace("100%", "100%%"))
    result = finish_command(start_module("tfaip.scripts.train", "chatty", cwd=tmp_path))
    assert result.rc == 0, result
    printed = result.stdout.splitlines()
    assert printed_epochs(result.stdout) == [1]
    assert "a processor is there" in printed
    # 44 samples of the epoch; the worker may have made some that were not asked for any more.
    assert printed.count("warning: a sample: 100%") >= 44
    kept = (tmp_path / "run" / "train.log").read_text()
    assert kept.count("WARNING chatty: a sample: 100%") == printed.count("warning: a sample: 100%")
