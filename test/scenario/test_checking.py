"""The check of scenarios: a scenario with every finding, at its line, and our own ones without any."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import keras
import pytest

import test.scenario.dated
from tfaip.scenario.checking.sources import read_package
from tfaip.scripts import check_scenario

DATED = Path(test.scenario.dated.__file__).parent
MARK = re.compile(r"# finding: (\S+)")
REPOSITORY = Path(__file__).resolve().parents[2]

# What the scenario does on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* is (deprecated since tfaip|now called):DeprecationWarning")
on_tensorflow = pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the scenario imports TensorFlow")


def marked(*kinds: str) -> set[tuple[str, int, str]]:
    """File, line and kind of the marks in the sources of `dated`, of some kinds."""
    found = set()
    for path in DATED.glob("*.py"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            mark = MARK.search(line)
            if mark and mark[1] in kinds:
                found.add((path.name, number, mark[1]))
    return found


def check(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and output of the command."""
    code = check_scenario.main(arguments)
    return code, capsys.readouterr().out


COMMON = ("backend-import", "old-name", "uncalled-method", "unpicklable-processor", "changed-default")


@on_tensorflow
def test_every_finding_is_at_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(["test.scenario.dated:DatedScenario", "--json"], capsys)
    found = json.loads(out)
    assert code == 1
    hidden = [finding for finding in found if "HiddenParams" in finding["text"]]
    places = {(Path(f["file"]).name, f["line"], f["kind"]) for f in found if f not in hidden}
    assert places == marked(*COMMON, "uncompiled-layer")
    assert [f["kind"] for f in hidden] == ["unpicklable-processor"]
    text = "hidden_params.<locals>.HiddenParams is not found in test.scenario.dated.data by its name"
    assert hidden[0]["text"] == text


@on_tensorflow
def test_text_names_each_finding_and_counts_them(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    code, out = check(["test.scenario.dated:DatedScenario"], capsys)
    assert code == 1
    lines = out.splitlines()
    (near,) = [line for line in lines if "_padding_value " in line]
    assert near.startswith("test/scenario/dated/data.py:")
    assert near.endswith(
        "uncalled-method: DatedData._padding_value overrides nothing and is never called; did you mean _padding_values?"
    )
    defaults = [line.partition("changed-default: ")[2] for line in lines if ": changed-default: " in line]
    # `max_tasks_per_process` is set in the scenario; the other ones are left alone.
    assert sorted(defaults) == [
        "DataPipelineParams.use_shared_memory is True by default, False in tfaip 1.2; "
        "set use_shared_memory in the scenario, to either value",
        "ScenarioBaseParams.input_gradient_regularization_h is 0.01 by default, 0.001 in tfaip 1.2; "
        "set input_gradient_regularization_h in the scenario, to either value",
        "TrainerParams.checkpoint_sub_dir is 'checkpoint' by default, '' in tfaip 1.2; "
        "set checkpoint_sub_dir in the scenario, to either value",
    ]
    assert lines[-1] == (
        "DatedScenario: 2 backend-import, 3 changed-default, 2 old-name, 4 uncalled-method, "
        "1 uncompiled-layer, 2 unpicklable-processor"
    )


@on_tensorflow
@pytest.mark.parametrize(("name", "kind"), [("RanklessScenario", "unknown-rank"), ("BrokenScenario", "fails")])
def test_models_and_params_that_cannot_be_built(name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check([f"test.scenario.dated:{name}", "--json"], capsys)
    found = {(Path(f["file"]).name, f["line"], f["kind"]) for f in json.loads(out)}
    assert code == 1
    assert {finding for finding in found if finding[2] == kind} == marked(kind)


@pytest.mark.parametrize(
    "arguments",
    [
        ["tfaip.scenario.tutorial.min"],
        ["tfaip.scenario.tutorial.full"],
        ["examples/template/my_scenario"],
        ["examples/wine/wine"],
        ["examples/images/images", "--data.folder", "examples", "--data.classes", "0", "1"],
        ["examples/images/transfer", "--data.folder", "examples", "--data.classes", "0", "1"],
        ["examples/lines/lines"],
        ["examples/lines/written"],
        ["examples/lines/aligned"],
        pytest.param(["examples/lines/growing"], marks=pytest.mark.slow),
        ["examples/tabular/tabular", "--data.table", "README.md", "--data.mean", "0", "--data.stddev", "1"],
        [
            "examples/text/text",
            "--data.vocabulary",
            "README.md",
            "--train.file",
            "README.md",
            "--val.file",
            "README.md",
        ],
    ],
    ids=lambda arguments: arguments[0].rpartition("/")[2],
)
def test_our_own_scenarios_have_no_findings(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    monkeypatch.setattr("sys.path", [*sys.path])
    code, out = check(arguments, capsys)
    assert out.endswith("nothing found\n"), out
    assert code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["test.scenario.nothing"], "test.scenario.nothing"),
        (["tfaip.scenario.tutorial.min", "--jsn"], "did you mean --json?"),
        ([], "which scenario?"),
    ],
)
def test_usage_errors(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_scenario.main(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_pipe_among_the_files_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "piped").mkdir()
    (tmp_path / "piped" / "__init__.py").write_text("NAME = 1\n")
    os.mkfifo(tmp_path / "piped" / "pipe.py")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("piped")
    assert [source.module for source in read_package("piped")] == ["piped"]
