"""Bad input: one clear line on stderr, exit code 2, and nothing is written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.scripts.conftest import read_params, refused
from test.support.commands import Run
from test.support.runs import copy_tiny, files_below

EVIL = "open('executed', 'w').close()\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working directory with the tiny scenario, and a module that must not be imported."""
    copy_tiny(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    return tmp_path


def contents(directory: Path) -> dict[str, Any]:
    """All that lies below a directory."""
    return {**{str(path): None for path in directory.rglob("*")}, **files_below(directory)}


TINY = "tiny --trainer.output_dir new"
FILES = {
    "foreign.yaml": "stages: {c: {__cls__: Call, function: 'statistics:mean'}}",
}
# Of a command line, in which RUN is a run of the tutorial, BEST its best model: what the error says, in pieces.
MISTAKES = {
    "train": "which scenario?; tfaip-train --help",
    f"train {TINY} --trainer.history_file BEST/weights.safetensors": "weights.safetensors; is not a text file",
    "train tinny --trainer.output_dir new": "no module named 'tinny'; did you mean tiny",
    # A directory with files of somebody, and one that cannot be made.
    "train tiny --trainer.output_dir tiny --overwrite": "tiny exists and is not the directory of a run; --trainer.outp",
    "train tiny --trainer.output_dir evil.py/run": "evil.py/run",
    f"train {TINY} --config foreign.yaml": "foreign.yaml: stages.c.function; --trust statistics",
    "resume_training nowhere": "no run at nowhere; does not exist",
    "lav --export_dir": "--export_dir needs a model; expected: tfaip-lav --export_dir DIR",
    "lav --export_dir nowhere": "no exported model at nowhere: the path does not exist",
    "lav --export_dir BEST BEST": "takes one directory; tfaip-multi-lav",
    "lav --export_dir BEST --dump f.pkl": "--dump f.pkl; .jsonl; .npz",
    "lav --export_dir BEST --out BEST": "best cannot be written: it is no regular file",
    "multi_lav --export_dirs BEST RUN/train": "no exported model at ; has no scenario_params.json",
    "predict --export_dir BEST --dump_inputs": "--dump_inputs; give --dump FILE",
    "evaluate --scenario BEST": "missing required flag: --prediction",
    "preview_schedule tiny --png no/p.png": "--png no/p.png; no directory no",
    "benchmark_input_pipeline tiny --time_limit 0": "time_limit is 0.0, expected seconds above 0",
    "export BEST --format": "which format? expected: --format",
    "export BEST --format keras --check": "--format compares what it writes, and --check what is there",
    "export BEST --check --batch_size 0": "--batch_size is 0; expected at least 1",
    "runs tiny": "no run at tiny: expected a directory with trainer_params.json, or a checkpoint inside of one",
    "runs compare run ./run": "tfaip-runs compare needs two different runs or more, got 1",
    "new Plants": "the name is 'Plants', expected that of a package: small letters, digits and _",
    "new plants --like image": "--like is 'image', expected one of template, wine, tabular, images, lines, text",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_one_line_and_nothing_is_written(line: str, place: Path, whole: Path, tutorial: Path, run: Run) -> None:
    for name, text in FILES.items():
        (place / name).write_text(text)
    shutil.copytree(whole / "run", place / "run")
    before = contents(place)
    words = line.replace("BEST", f"{tutorial}/best").replace("RUN", str(tutorial)).split(" ")
    refused(run(*words), *MISTAKES[line].split("; "))
    assert contents(place) == before


def changed(params: dict[str, Any], path: str, value: Any) -> str:
    """The params as JSON with another value at a dotted path."""
    node = params
    *parents, last = path.split(".")
    for name in parents:
        node = node[name]
    node[last] = value
    return json.dumps(params)


@pytest.mark.parametrize(
    ("damage", "fragments"),
    [
        (lambda p: json.dumps(p)[:-1], ["trainer_params.json", "JSON"]),
        (lambda p: changed(p, "optimizer.__cls__", "evil:Params"), ["'evil:Params'", "refused", "evil is not among"]),
        (lambda p: changed(p, "scenario.scenario_id", "evil"), ["'evil'", "module:Class"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_stored_params(
    damage: Callable[[dict[str, Any]], str], fragments: list[str], place: Path, whole: Path, run: Run
) -> None:
    (place / "old").mkdir()
    params = place / "old" / "trainer_params.json"
    params.write_text(damage(read_params(whole / "run")))
    before = contents(place)
    refused(run("resume_training", "old"), *fragments)
    # Neither the file that evil.py writes when it is imported, nor anything else.
    assert contents(place) == before


def test_resume_of_a_run_that_lost_its_checkpoints(place: Path, whole: Path, run: Run) -> None:
    """It has epochs, which must not be replaced."""
    shutil.copytree(whole / "run", place / "run", ignore=shutil.ignore_patterns("checkpoint", "export"))
    before = contents(place)
    refused(run("resume_training", "run"), "no checkpoint in run/checkpoint: nothing to resume")
    assert contents(place) == before
