"""Files of the repository that users start, or that other tools read."""

from __future__ import annotations

import tomllib

import pytest

from test.support.commands import REPOSITORY, finish_command, start_python


@pytest.mark.parametrize(("file", "program"), [("train", "tfaip-train"), ("resume_training", "tfaip-resume-training")])
def test_the_file_of_a_command_is_a_program(file: str, program: str) -> None:
    # Trained and resumed in `test_scripts_directly.py`.
    result = finish_command(start_python(REPOSITORY / "tfaip" / "scripts" / f"{file}.py", "--help"))
    assert (result.rc, result.stderr) == (0, ""), result
    assert result.stdout.startswith(f"usage: {program} ")


def test_scenarios_of_1_2_get_their_decorators() -> None:
    lines = (REPOSITORY / "requirements.txt").read_text().splitlines()
    assert [line for line in lines if line.startswith("paiargparse>=1.1.2")] != []


def test_the_extra_that_shows_profiles() -> None:
    extras = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [name for name in extras["profile"] if name.startswith("tensorboard-plugin-profile")] != []
