"""The help of commands: that of a scenario imports no NumPy and no backend, a usage text not even the params."""

import subprocess
import sys

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
    result = subprocess.run([sys.executable, "-P", "-c", CODE], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.stdout == "16\n"
