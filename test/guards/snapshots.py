"""What commands print of a scenario, and its default params as they are stored, kept as text files.

    python -m test.guards.snapshots    # rewrite the files, after a change that is meant

Each scenario has a process of its own, since the choices in a help text are the classes that were imported.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any

from test.support.commands import REPOSITORY, finish_command, start_module
from tfaip.errors import UsageError

SNAPSHOTS = Path(__file__).resolve().parent / "snapshots"
LINES = REPOSITORY / "examples" / "lines"
SCENARIOS = {
    "min": "tfaip.scenario.tutorial.min.scenario:MinScenario",
    "full": "tfaip.scenario.tutorial.full.scenario:TutorialScenario",
    "lines": "lines.scenario:LineScenario",
    "sums": "test.clients.sums.scenario:SumsScenario",
    "words": "test.clients.words.scenario:WordsScenario",
    "tiny": "test.support.tiny.scenario:TinyScenario",
}
FLAGS = {"overview.txt": ["--help"], "help.txt": ["--help", "all"], "config.txt": ["--print_config"]}
PARAMS = "params.json"
# The stored params once they were read, or why they cannot be.
READ = "read.json"


def endings_of(name: str) -> list[str]:
    """Return the endings of the files of a scenario."""
    return ["overview.txt"] if name == "tiny" else ["help.txt", "config.txt", PARAMS]


def texts_in_new_process(name: str, *endings: str) -> dict[str, str]:
    """Return texts of a scenario by their endings, from a process that has imported no other scenario."""
    result = finish_command(start_module("test.guards.snapshots", name, *endings, env={"COLUMNS": "100"}))
    assert result.rc == 0, result
    texts: dict[str, str] = json.loads(result.stdout)
    return texts


def text_of(name: str, ending: str) -> str:
    """Return a text of a scenario in this process."""
    if ending in FLAGS:
        text = _printed([SCENARIOS[name], *FLAGS[ending]])
    else:
        params = scenario_class(name).default_trainer_params()
        params.__post_init__()  # values that follow from others, as in a training
        if ending == READ:
            stored = (SNAPSHOTS / f"{name}.{PARAMS}").read_text()
            try:
                params = type(params).from_json(stored, trusted=[SCENARIOS[name].partition(".")[0]])
            except UsageError as error:
                return f"cannot be read: {error}"
        text = params.to_json(indent=2) + "\n"
    return text.replace(str(REPOSITORY), "REPOSITORY")


def scenario_class(name: str) -> Any:
    """Import the class of a scenario."""
    module, _, class_name = SCENARIOS[name].partition(":")
    return getattr(importlib.import_module(module), class_name)


def _printed(command: list[str]) -> str:
    """Return what `tfaip-train` prints."""
    from tfaip.scripts.train import main

    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        main(command)
    return printed.getvalue()


def rewrite() -> None:
    """Write the files of all scenarios."""
    for name in SCENARIOS:
        for ending, text in texts_in_new_process(name, *endings_of(name)).items():
            (SNAPSHOTS / f"{name}.{ending}").write_text(text)


def main(name: str = "", *endings: str) -> None:
    """Command line."""
    if not name:
        rewrite()
        return
    sys.path.insert(0, str(LINES))
    print(json.dumps({ending: text_of(name, ending) for ending in endings}))


if __name__ == "__main__":
    main(*sys.argv[1:])
