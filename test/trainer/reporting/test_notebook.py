"""A training in the kernel of a notebook: a line that is replaced, the rows, and a picture of the history."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import nbformat
import pytest

from test.support.commands import REPOSITORY, finish_command, start_python
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.progress import NotebookProgress, ProgressBar, create_progress_display
from tfaip.util.terminal import is_notebook

EXECUTE = "from nbclient.cli import main; main()"


def executed(cells: list[str], tmp_path: Path) -> list[list[Any]]:
    """The outputs of each cell of a notebook with this code."""
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    path = tmp_path / "training.ipynb"
    nbformat.write(notebook, path)
    own = {"IPYTHONDIR": "ipython", "JUPYTER_CONFIG_DIR": "config", "JUPYTER_RUNTIME_DIR": "runtime"}
    env = {name: str(tmp_path / directory) for name, directory in own.items()}
    result = finish_command(start_python("-c", EXECUTE, "--inplace", path, cwd=tmp_path, env=env), 300)
    assert result.rc == 0, result
    return [cell.outputs for cell in nbformat.read(path, as_version=4).cells]


def printed(outputs: list[Any]) -> str:
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def shown(text: str) -> list[str]:
    """The lines of a text when each part after a carriage return has replaced the one before."""
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]


@pytest.mark.slow
def test_a_training_in_a_notebook(tmp_path: Path) -> None:
    """4 epochs of 11 batches, which take less than the second after which the line is shown; its text is gone."""
    trained, plotted, predicted = executed(
        [
            "import os, sys\n"
            f"sys.path.insert(0, {str(REPOSITORY)!r})\n"
            "from test.support.tiny.scenario import TinyScenario\n"
            "params = TinyScenario.default_trainer_params()\n"
            "params['trainer.random_seed'] = 1\n"
            "trainer = TinyScenario.create_trainer(params)\n"
            "logs = trainer.train()",
            "trainer.history.plot('loss')",
            "from tfaip.predict.params import PredictorParams\n"
            "from tfaip.predict.predictor import Predictor\n"
            "predictor = Predictor(PredictorParams(), trainer.scenario.data)\n"
            "predictor.set_model(trainer.scenario.graph)\n"
            "predictor.params.pipeline.batch_size = 4\n"
            "samples = list(predictor.predict(params.gen.val))\n"
            "len(samples)",
        ],
        tmp_path,
    )
    assert [output for output in trained if output.output_type == "display_data"] == []
    rows = [line for line in shown(printed(trained)) if " | " in line]
    assert len(rows) == 2 + 4  # the header and the epochs
    (picture,) = [output.data for output in plotted if output.output_type == "execute_result"]
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")
    (count,) = [int(output.data["text/plain"]) for output in predicted if output.output_type == "execute_result"]
    batches = -(-count // 4)
    assert f"\rPrediction: {batches} of {batches}" in printed(predicted)
    assert "".join(shown(printed(predicted))).strip() == ""


def test_the_line_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    """Batches of half a second: shown once a second, but not when the epoch is complete."""
    clock = [100.0]
    display = NotebookProgress(clock=lambda: clock[0])
    display.start("Epoch 1/2", 6, 1)
    for done in range(2, 7):
        clock[0] += 0.5
        display.advance(done, lambda: {"loss": 0.5})
    display.stop()
    lines = [
        f"Epoch 1/2: batch {done} of 6, 2 batches/s, 0:0{left} left, loss 0.5000" for done, left in ((3, 2), (5, 0))
    ]
    assert capsys.readouterr().out == "".join(f"\r{line}" for line in lines) + f"\r{' ' * len(lines[0])}\r"
    display.start("Validation", None, 0)
    clock[0] += 1
    display.advance(3, dict)
    display.stop()
    line = "Validation: batch 3, 3 batches/s"
    assert capsys.readouterr().out == f"\r{line}\r{' ' * len(line)}\r"


def test_no_notebook() -> None:
    assert not is_notebook()
    assert isinstance(create_progress_display(ProgressBarMode.BAR), ProgressBar)
