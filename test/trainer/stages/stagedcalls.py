"""Functions that stages of tests call, and stages that call them."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.params.types import FunctionName
from tfaip.trainer.stages.params import CallStage

HERE = "test.trainer.stages.stagedcalls"


def note(directory: Path, stages: dict[str, Path], history: Any, text: str = "") -> None:
    """Write what a function of a stage is given."""
    (directory / "note.json").write_text(json.dumps([text, sorted(stages), len(history)]))


def count(run_directory: Path) -> None:
    """Count the calls."""
    with open(run_directory / "calls", "a") as file:
        file.write("x")


def draw(directory: Path) -> None:
    """Write numbers of the global generators."""
    numbers = [random.random(), float(np.random.random()), float(keras.random.uniform(()))]  # noqa: S311
    (directory / "numbers.json").write_text(json.dumps(numbers))


def interrupted_draw(directory: Path, run_directory: Path) -> None:
    """The same; SIGTERM comes in the first call."""
    assert [path.name for path in directory.iterdir()] == ["stage.json"]
    (directory / "half").touch()
    if not (run_directory / "calls").exists():
        signal.raise_signal(signal.SIGTERM)
    count(run_directory)
    draw(directory)


def count_lines(x: str) -> int:
    """Return the number of lines of a file."""
    return len(Path(x).read_text().splitlines())


def of_another_type() -> Any:
    """Return what JSON cannot hold."""
    return Path()


def call(function: str, **arguments: Any) -> CallStage:
    """A stage that calls a function of this module."""
    return CallStage(function=FunctionName(f"{HERE}:{function}"), arguments=arguments)
