"""What commands tell before they import: a usage text no params, the help of a scenario no NumPy, no backend either."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from test.support.commands import finish_command, start_python

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
