"""No module of a model, run or params directory is imported when that is the working directory."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, CommandResult, finish_command, start_command, start_python
from test.support.runs import copy_tiny, printed_epochs
from tfaip.trainer.run.names import PARAMS_FILE
from tfaip.util.manifest import write_manifest

# Installed ones, one of the standard library, an optional one that is not installed, the package of the scenario.
SHADOWS = ("keras.py", "numpy.py", "json.py", "yaml.py", "typing.py", "safetensors/", "cupy.py", "tiny/")
HOSTILE = "import os\nwith open({marker!r}, 'a') as file:\n    file.write(__name__ + '\\n')\n"
COMMANDS: dict[str, tuple[str, ...]] = {
    "resume_training": (".", "--help"),
    "train_from_params": (PARAMS_FILE, "--help"),
    "replay_learning_rate": (".", "--help"),
    "export": ("best", "--format", "keras", "--unknown"),
    "lav": ("--export_dir", "best", "--help"),
    "multi_lav": ("--export_dirs", "best", "export", "--help"),
    "predict": ("--export_dir", "export", "--help"),
    "evaluate": ("--prediction", "x.jsonl", "--scenario", "best", "--help"),
}
Start = Callable[..., "subprocess.Popen[str]"]


def console_script(command: str, *args: str, cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    """Start what an installer writes for an entry point."""
    script = cwd.parent / "bin" / f"tfaip-{command}"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"import sys\nfrom tfaip.scripts.{command} import main\nsys.exit(main())\n")
    return start_python(script, *args, cwd=cwd, env=env)


def own_file(command: str, *args: str, cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    """Start the module of a command as a file."""
    return start_python(REPOSITORY / "tfaip" / "scripts" / f"{command}.py", *args, cwd=cwd, env=env)


STARTS: dict[str, Start] = {"module": start_command, "console": console_script, "file": own_file}


def write_shadows(directory: Path, marker: Path, names: Sequence[str] = SHADOWS) -> None:
    """Put modules into a directory that write their name into `marker` when they are imported."""
    for name in names:
        path = directory / name / "__init__.py" if name.endswith("/") else directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(HOSTILE.format(marker=str(marker)))


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "imported"


@pytest.fixture
def hostile(whole: Path, tmp_path: Path, marker: Path) -> Path:
    """A copy of a run with such modules in the run and in its models."""
    run = Path(shutil.copytree(whole / "run", tmp_path / "run"))
    for directory in (run, run / "best", run / "export"):
        write_shadows(directory, marker)
    for model in (run / "best", run / "export"):
        write_manifest(model, {"backend": os.environ["KERAS_BACKEND"], "versions": {}})
    return run


def paths(*directories: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(map(str, [REPOSITORY, *directories]))}


def imported(marker: Path) -> list[str]:
    return marker.read_text().split() if marker.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize(("how", "names"), [("module", COMMANDS), ("console", ["lav"]), ("file", ["resume_training"])])
def test_no_command_imports_from_a_run_that_is_the_working_directory(
    how: str, names: Iterable[str], hostile: Path, workplace: Path, marker: Path
) -> None:
    env = paths(workplace)
    started = {command: STARTS[how](command, *COMMANDS[command], cwd=hostile, env=env) for command in names}
    results = {command: finish_command(process) for command, process in started.items()}
    assert imported(marker) == []
    # Of export the unknown flag, after the model was read.
    assert [result.rc for result in results.values()] == [2 if name == "export" else 0 for name in names], results


@pytest.mark.slow
def test_the_whole_work_imports_nothing_from_a_model_that_is_the_working_directory(
    hostile: Path, workplace: Path, marker: Path
) -> None:
    env = {**paths(workplace), "PYTHONSAFEPATH": ""}
    best = hostile / "best"
    started = console_script("predict", "--export_dir", ".", "--dump", "../p.jsonl", cwd=best, env=env)
    results = [finish_command(started)]
    # With data workers. Not at the same time: it replaces the model.
    flags = ("--trainer.epochs", "5", "--train.num_processes", "1")
    results.append(finish_command(start_command("resume_training", ".", *flags, cwd=hostile, env=env)))
    assert imported(marker) == []
    assert [result.rc for result in results] == [0, 0], results
    assert printed_epochs(results[1].stdout)[-1] == 5


@pytest.mark.parametrize("how", [pytest.param("module", marks=pytest.mark.slow), "console"])
def test_the_scenario_of_a_model_directory_is_not_imported(how: str, hostile: Path, marker: Path) -> None:
    result = finish_command(STARTS[how]("lav", "--export_dir", ".", "--help", cwd=hostile / "best", env=paths()))
    assert imported(marker) == []
    assert (result.rc, result.stderr.count("\n")) == (2, 1), result
    assert "no module named 'tiny.scenario'; nothing is imported from the directory of a model" in result.stderr
    assert "put the directory that holds tiny on the PYTHONPATH" in result.stderr


@pytest.mark.slow
def test_elsewhere_the_working_directory_comes_after_installed_packages(
    whole: Path, tmp_path: Path, marker: Path
) -> None:
    project = copy_tiny(tmp_path / "project")
    write_shadows(project, marker, [name for name in SHADOWS if name not in ("tiny/", "cupy.py")])
    started = [
        start("lav", "--export_dir", str(whole / "run" / "best"), "--help", cwd=project, env=env)
        for start in STARTS.values()
        for env in (paths(), {**paths(), "PYTHONSAFEPATH": "1"})
    ]
    # A scenario that is named beside a stored file.
    evaluate = ("--scenario", "tiny", "--prediction", "x.jsonl", "--help")
    started.append(start_command("evaluate", *evaluate, cwd=project, env=paths()))
    results: list[CommandResult] = [finish_command(process) for process in started]
    assert [result.rc for result in results] == [0] * len(started), results
    assert imported(marker) == []


def test_a_directory_that_the_user_named_stays(tmp_path: Path) -> None:
    """PYTHONPATH is the user's own choice; an empty entry of it hardly ever is."""
    program = tmp_path / "bin" / "tfaip-program"
    program.parent.mkdir()
    program.write_text("import os, sys, tfaip\nprint(os.getcwd() in map(os.path.realpath, sys.path))")
    for name, is_there in ((".", "True"), (str(tmp_path), "True"), ("", "False")):
        env = {"PYTHONPATH": os.pathsep.join([str(REPOSITORY), name])}
        result = finish_command(start_python(program, cwd=tmp_path, env=env))
        assert (result.rc, result.stdout.strip()) == (0, is_there), result


def test_other_programs_keep_their_path(tmp_path: Path) -> None:
    """Only commands of tfaip change the path when tfaip is imported."""
    (tmp_path / "program.py").write_text("import sys\nbefore = list(sys.path)\nimport tfaip\nassert before == sys.path")
    for args in (["-m", "program"], [tmp_path / "program.py"], ["-c", "import program"]):
        result = finish_command(start_python(*args, cwd=tmp_path, env=paths()))
        assert (result.rc, result.stderr) == (0, ""), result
