"""`tfaip-new`: scenarios to start from, which train at once."""

import json
import re
import shlex
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, Run, finish_command, run_several, start_module, start_python

# So little training that only its way is tested; `test/examples` trains the examples as their READMEs say.
SHORT = ["--trainer.epochs", "1", "--trainer.samples_per_epoch", "20", "--trainer.export_final", "False"]
KINDS = ["template", "wine", "tabular", "images", "lines", "text"]


@pytest.mark.slow
def test_a_new_scenario_trains_by_the_commands_of_its_readme(run: Run, tmp_path: Path) -> None:
    written = run("new", "red_plants", "--like", "wine")
    directory = tmp_path / "red_plants"
    commands = [shlex.split(line) for line in written.stdout.partition("next:\n  cd red_plants\n")[2].splitlines()]
    (training, *_) = [command for command in commands if command[0] == "tfaip-train" and "--help" not in command]
    few = ["--pipeline.limit", "20"]
    prediction = [["predict", *command[1:], *few] for command in commands if command[0] == "tfaip-predict"]
    result = run_several([["train", *training[1:], *SHORT], *prediction], cwd=directory)
    assert result.rc == 0, result
    assert "training red_plants.scenario:RedPlantsScenario on " in result.stdout + result.stderr
    (history,) = (directory / "runs").glob("*/history.json")
    assert list(json.loads(history.read_text())) == ["1"]
    (picture,) = [command for command in commands if command[:2] == ["python", "picture.py"]]
    drawn = finish_command(start_python(*picture[1:], cwd=directory))
    assert drawn.rc == 0, drawn
    assert (directory / picture[-1]).read_text().endswith("</svg>\n")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_names_the_example_any_more(kind: str, run: Run, tmp_path: Path) -> None:
    package = {"template": "my_scenario"}.get(kind, kind)
    result = run("new", "red_plants", "--like", kind)
    assert result.rc == 0, result
    shown = result.stdout.partition("next:\n  cd red_plants\n")[2].splitlines()
    files = {path: path.read_text() for path in (tmp_path / "red_plants").rglob("*") if path.is_file()}
    assert {"README.md", "test_red_plants.py", "scenario.py", "model.py"} < {path.name for path in files}
    for path, text in files.items():
        assert not re.search(rf"(from|import|tfaip-train|`|runs/) ?{package}[./ ]|test_{package}|^{package}/", text), (
            path
        )
        assert package not in path.parts
        if path.suffix == ".py":
            compile(text, path, "exec")
        if path.name == "README.md":
            typed = re.findall(r"^(?:tfaip-|python ).*", text, re.MULTILINE)
            assert [line.strip() for line in shown] == typed
        # Each file of the table in the README is there.
        for named in re.findall(r"^\| `([\w./]+)`", text, re.MULTILINE):
            assert (tmp_path / "red_plants" / named).is_file() or (tmp_path / "red_plants/red_plants" / named).is_file()


@pytest.mark.slow
def test_the_tests_of_a_new_scenario(run: Run, tmp_path: Path) -> None:
    assert run("new", "plants").rc == 0
    result = finish_command(start_module("unittest", cwd=tmp_path / "plants"))
    assert result.rc == 0, result
    assert "Ran 6 tests in " in result.stderr


def test_an_installed_package_has_the_examples(tmp_path: Path) -> None:
    built = finish_command(
        start_python("setup.py", "--quiet", "build_py", "--build-lib", tmp_path / "lib", cwd=REPOSITORY)
    )
    assert built.rc == 0, built
    code = "import sys, tfaip.scripts.new as new; print(new.__file__); sys.exit(new.main(['plants', '--like', 'text']))"
    process = start_python(
        "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'lib')!r}); {code}", cwd=tmp_path
    )
    result = finish_command(process)
    assert result.rc == 0, result
    assert result.stdout.startswith(f"{tmp_path / 'lib'}/tfaip/scripts/new.py\n")
    example = REPOSITORY / "examples" / "text"
    assert (tmp_path / "plants" / "picture.py").read_text() == (example / "picture.py").read_text()
    assert not list((tmp_path / "lib" / "tfaip" / "examples").rglob("*.pyc"))
