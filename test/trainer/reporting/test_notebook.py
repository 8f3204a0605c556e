"""A training in the kernel of a notebook: one bar that is updated in its place, and a picture of the history."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import nbformat
import pytest

from test.support.commands import REPOSITORY, finish_command, start_python
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.bars import NotebookProgress, ProgressBar, create_progress_display
from tfaip.util.notebook import NotebookBar, is_notebook, representations

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


@pytest.mark.slow
def test_a_training_in_a_notebook(tmp_path: Path) -> None:
    """4 epochs of 11 batches: the bar is one output, with the last epoch, and not that of the last validation."""
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
    (bar,) = [output.data for output in trained if output.output_type == "display_data"]
    assert bar["text/plain"].startswith("Epoch 4/4 [####################] 11/11 ")
    assert "<progress value='11' max='11'></progress> 11/11" in bar["text/html"]
    assert " loss=" in bar["text/plain"]
    rows = [line for line in printed(trained).splitlines() if " | " in line]
    assert len(rows) == 2 + 4  # the header and the epochs
    (picture,) = [output.data for output in plotted if output.output_type == "execute_result"]
    assert base64.b64decode(picture["image/png"]).startswith(b"\x89PNG")
    (bar,) = [output.data for output in predicted if output.output_type == "display_data"]
    (count,) = [int(output.data["text/plain"]) for output in predicted if output.output_type == "execute_result"]
    batches = -(-count // 4)
    assert bar["text/plain"] == f"Prediction [{'#' * 20}] {batches}/{batches}"


class Screen(NotebookBar):
    """Keeps what a notebook would show."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[tuple[str, int, int | None, str]] = []

    def draw(self, description: str, done: int, total: int | None, text: str) -> None:
        self.states.append((description, done, total, text))


def test_the_states_of_the_bar() -> None:
    """Batches of 1/8 s: drawn at most five times a second, and when the epoch is complete."""
    screen, clock = Screen(), [100.0]
    display = NotebookProgress(lambda: clock[0], screen)
    display.start("Epoch 1/2", 6, 1)
    for done in range(2, 7):
        clock[0] += 0.125
        display.advance(done, lambda: {"loss": 0.5})
    display.stop()
    assert [done for _, done, _, _ in screen.states] == [1, 2, 4, 6, 6]
    assert screen.states[1] == ("Epoch 1/2", 2, 6, "8 batches/s, 0:00 left, loss=0.5000")
    last = ("Epoch 1/2", 6, 6, "8 batches/s, loss=0.5000")
    assert screen.states[-1] == last
    display.start("Validation", None, 0)
    clock[0] += 1
    display.advance(3, lambda: {})
    assert screen.states[-1] == ("Validation", 3, None, "3 batches/s")
    display.stop()
    assert screen.states[-1] == last


def test_no_notebook() -> None:
    assert not is_notebook()
    assert isinstance(create_progress_display(ProgressBarMode.BAR), ProgressBar)


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [
        (0, 3, "Epoch <1> [                    ] 0/3 a&b"),
        (2, None, "Epoch <1> 2 a&b"),
    ],
)
def test_text_and_html(done: int, total: int | None, text: str) -> None:
    shown = representations("Epoch <1>", done, total, "a&b")
    assert shown["text/plain"] == text
    assert "Epoch &lt;1&gt;" in shown["text/html"]
    assert "a&amp;b" in shown["text/html"]
