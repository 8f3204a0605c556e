"""The page of options by purpose: every flag exists and takes the value of its row."""

from __future__ import annotations

import importlib
import re
import shlex
from typing import Any

from test.docs.test_docs import DOCS, commands
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.scripts.common.parser import TrainingParser

ROW = re.compile(r"^\| (?!I want to)([^|-][^|]*) \| (.*) \| \[[^\]]+\]\(([\w.]+\.md)(?:#[\w-]+)?\) \|$", re.MULTILINE)
ROWS = ROW.findall((DOCS / "which_option.md").read_text())
OPTIONS = [option for _, cell, _ in ROWS for option in re.findall(r"`((?:-|tfaip-)[^`]+)`", cell)]
# Those of `tfaip-train` and of commands that take them.
FLAGS = [option for option in OPTIONS if option.startswith("--")]
TYPED = [shlex.split(option) for option in OPTIONS if option.startswith("tfaip-")]


def test_every_row_is_read_and_has_an_option_of_its_own() -> None:
    lines = re.findall(r"^\| (?!I want to)", (DOCS / "which_option.md").read_text(), re.MULTILINE)
    assert len(ROWS) == len(lines) >= 60
    assert len(set(OPTIONS)) == len(OPTIONS) == len(ROWS) - 1  # one is a variable of the environment


def parse_training(flags: str) -> Any:
    return TrainingParser("test", "", TutorialScenario).parse(shlex.split(flags)).trainer.to_dict()


def test_a_training_takes_the_flags() -> None:
    defaults = parse_training("")
    assert [flags for flags in FLAGS if parse_training(flags) == defaults] == []


def test_commands_know_their_flags() -> None:
    # Their usage does not list the flags of params, nor those that files and samples have in common.
    pages = ("command_line.md", "evaluation.md", "training.md")
    run = {word for page in pages for line in commands(page) for word in line}
    for name, *arguments in TYPED:
        module = importlib.import_module(f"tfaip.scripts.{name.removeprefix('tfaip-').replace('-', '_')}")
        flags = {word for word in arguments if word.startswith("--")}
        assert flags - set(re.findall(r"--\w+", module.USAGE)) - run == set(), name
