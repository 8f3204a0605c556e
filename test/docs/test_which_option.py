"""The page of options by purpose: every flag exists and takes the value of its row."""

from __future__ import annotations

import importlib
import pkgutil
import re
import shlex
from typing import Any

import pytest

from test.docs.test_docs import DOCS, commands
from tfaip import scripts
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.scripts.common.parser import TrainingParser

ROW = re.compile(r"^\| (?!I want to)([^|-][^|]*) \| (.*) \| \[[^\]]+\]\(([\w.]+\.md)(?:#[\w-]+)?\) \|$", re.MULTILINE)
ROWS = ROW.findall((DOCS / "which_option.md").read_text())
OPTIONS = [option for _, cell, _ in ROWS for option in re.findall(r"`((?:-|tfaip-)[^`]+)`", cell)]
# Those of `tfaip-train` and of commands that take them.
FLAGS = [option for option in OPTIONS if option.startswith("--")]
TYPED = [shlex.split(option) for option in OPTIONS if option.startswith("tfaip-")]
USAGES = {
    f"tfaip-{module.name.replace('_', '-')}": importlib.import_module(f"tfaip.scripts.{module.name}").USAGE
    for module in pkgutil.iter_modules(scripts.__path__)
    if not module.ispkg
}


def test_every_row_is_read_and_has_an_option_of_its_own() -> None:
    lines = re.findall(r"^\| (?!I want to)", (DOCS / "which_option.md").read_text(), re.MULTILINE)
    assert len(ROWS) == len(lines) >= 60
    assert len(set(OPTIONS)) == len(OPTIONS) == len(ROWS) - 1  # one is a variable of the environment


@pytest.fixture(scope="module")
def defaults() -> dict[str, Any]:
    return parse_training("").to_dict()


def parse_training(flags: str) -> Any:
    return TrainingParser("test", "", TutorialScenario).parse(shlex.split(flags)).trainer


@pytest.mark.parametrize("flags", FLAGS)
def test_a_training_takes_the_flags(flags: str, defaults: dict[str, Any]) -> None:
    assert parse_training(flags).to_dict() != defaults


@pytest.mark.parametrize("typed", TYPED, ids=lambda typed: typed[0])
def test_commands_know_their_flags(typed: list[str]) -> None:
    name, *arguments = typed
    known = set(re.findall(r"--\w+", USAGES[name]))
    # Their usage does not list the flags of params, nor those that files and samples have in common.
    run = {
        word for page in ("command_line.md", "evaluation.md", "training.md") for line in commands(page) for word in line
    }
    flags = {word for word in arguments if word.startswith("--")}
    assert flags - known - run == set()
