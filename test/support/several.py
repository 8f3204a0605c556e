"""Runs several commands in one process, one after the other: `python -m test.support.several COMMANDS`.

Most of the time of a short command goes into the import of its backend, so commands that need no process of their own
share one. `COMMANDS` is a JSON list of commands: the name of a module in `tfaip.scripts`, and its arguments. The
process ends with the exit code of the first command that fails.
"""

import importlib
import json
import sys

from test.device.train_cases import split_cpu
from test.support.commands import exit_code


def main(commands: list[list[str]]) -> int:
    """Run commands up to the first one that fails; return its exit code, or 0."""
    for name, *arguments in commands:
        print("$", name, *arguments, flush=True)
        code = exit_code(importlib.import_module(f"tfaip.scripts.{name}").main, arguments)
        if code:
            return code
    return 0


if __name__ == "__main__":
    split_cpu()
    sys.exit(main(json.loads(sys.argv[1])))
