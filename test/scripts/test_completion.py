"""Completion of command lines, and what else is answered before a backend is imported."""

import json
import os
from pathlib import Path

import pytest

from test.support.commands import finish_command, start_python

FULL = "tfaip.scenario.tutorial.full"


def answer(script: str, line: str, cwd: Path, *paths: Path) -> list[str]:
    """Return the completions of a command line, as bash asks for them."""
    with (cwd / "answer").open("w") as file:
        environment = {
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
            "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:",
            "_ARGCOMPLETE_STDOUT_FILENAME": file.name,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
        }
    finish_command(start_python("-m", f"tfaip.scripts.{script}", cwd=cwd, env=environment))
    return [word.strip() for word in (cwd / "answer").read_text().split("\013") if word]


@pytest.fixture
def without_backend(tmp_path: Path) -> Path:
    """Directory of backends that end the process that imports them."""
    for name in ("keras", "tensorflow", "jax"):
        (tmp_path / "broken" / name).mkdir(parents=True)
        (tmp_path / "broken" / name / "__init__.py").write_text("import os\nos._exit(3)\n")
    return tmp_path / "broken"


@pytest.mark.parametrize(
    ("script", "line", "expected"),
    [
        ("train", f"tfaip-train {FULL} --optimizer SGD --optimizer.mo", ["--optimizer.momentum"]),
        ("train", f"tfaip-train {FULL} --data.dataset=di", ["digits"]),
        ("train", "tfaip-train ./scenarios/mi", ["./scenarios/mine.py"]),
        ("train", f"tfaip-train {FULL} --data.pre_proc.processors Normalize Ran", ["RandomShift"]),
        ("train", "tfaip-train no.such.module --dry", ["--dry_run"]),
    ],
)
def test_no_answer_needs_a_backend(
    tmp_path: Path, without_backend: Path, script: str, line: str, expected: list[str]
) -> None:
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "mine.py").touch()
    assert answer(script, line, tmp_path, without_backend) == expected


def test_nothing_is_imported_from_the_directory_of_a_model(tmp_path: Path) -> None:
    (tmp_path / "scenario_params.json").touch()
    for name in ("argcomplete", "argparse", "shlex", "keras"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    assert answer("lav", "tfaip-lav --exp", tmp_path) == ["--export_dir"]
    assert answer("train", f"tfaip-train {FULL} --trainer.ep", tmp_path) == ["--trainer.epochs"]
    assert not (tmp_path / "imported").exists()


CODE = """
import contextlib, importlib, io, pkgutil, sys
import tfaip.scripts

names = [module.name for module in pkgutil.iter_modules(tfaip.scripts.__path__) if not module.ispkg]
lines = [[name, "--help"] for name in names] + [["train", "tfaip.scenario.tutorial.full", "--help"]]
for name, *line in lines:
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        importlib.import_module(f"tfaip.scripts.{name}").main(line)
    assert printed.getvalue().startswith("usage: "), (name, printed.getvalue()[:80])
    heavy = {"numpy", "yaml", "rich", "keras", "tensorflow", "jax"} & set(sys.modules)
    if len(line) == 1:
        heavy |= {"argcomplete", "dataclasses", "tfaip.params"} & set(sys.modules)
    assert not heavy, (line, heavy)
print(len(lines))
"""


def test_help_imports_no_heavy_module() -> None:
    result = finish_command(start_python("-P", "-c", CODE))
    assert (result.stdout, result.stderr) == ("15\n", "")


LINES = """
import contextlib, importlib, io, json, sys

for name, *line, expected in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        try:
            code = importlib.import_module(f"tfaip.scripts.{name}").main(line)
        except SystemExit as end:
            code = end.code
    assert code == expected, (line, code, errors.getvalue())
    assert not {"keras", "tensorflow", "jax"} & set(sys.modules), line
"""


@pytest.mark.slow
def test_no_backend_is_imported_for_help_values_and_refusals(whole: Path, workplace: Path, tutorial: Path) -> None:
    run, best = str(whole / "run"), str(tutorial / "best")
    lines = [
        ["train", "tiny", "--help", 0],
        ["train", "tfaip.scenario.tutorial.full", "--model.graph", "MLP", "--help", 0],
        ["train", "tiny", "--trainer.output_dir", "x", "--print_config", 0],
        ["train", "tiny", "--trainer.output_dir", run, 2],
        ["resume_training", run, "--help", 0],
        ["train_from_params", f"{run}/trainer_params.json", "--help", 0],
        *[[name, "--export_dir", best, "--dump", "no/f.npz", 2] for name in ("lav", "predict")],
        ["lav", "--export_dir", best, "--help", 0],
        ["evaluate", "--scenario", best, "--help", 0],
    ]
    result = finish_command(start_python("-c", LINES, json.dumps(lines), cwd=workplace))
    assert (result.rc, result.stdout, result.stderr) == (0, "", ""), result
