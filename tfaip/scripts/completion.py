"""`tfaip-completion SHELL`: print what a shell needs to complete the arguments of all commands."""

from __future__ import annotations

import sys

from tfaip.errors import UsageError
from tfaip.scripts.common import command

PROG = "tfaip-completion"
USAGE = f"""usage: {PROG} SHELL

Print the code with which a shell (bash, zsh or fish) completes the arguments of all commands. To
switch it on, add one of these lines to ~/.bashrc, ~/.zshrc or ~/.config/fish/config.fish:

  eval "$({PROG} bash)"
  eval "$({PROG} zsh)"
  {PROG} fish | source"""


@command.entry_point(USAGE, "shell", choices={})
def main(shell: str, flags: list[str]) -> None:
    """Print the code for a shell."""
    from argcomplete import shellcode

    from tfaip.scripts.common.completing import SHELLS

    if shell not in SHELLS or flags:
        raise UsageError(f"expected one of {', '.join(SHELLS)}, got {' '.join([shell, *flags])}")
    print(shellcode(_commands(), shell=shell))


def _commands() -> list[str]:
    from importlib.metadata import entry_points

    found = entry_points(group="console_scripts")
    return sorted({script.name for script in found if script.value.startswith("tfaip.scripts.")} | {PROG})


if __name__ == "__main__":
    sys.exit(main())
