"""The processes of this machine, as `/proc` lists them; any of them may end while it is looked at."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
ZOMBIE = "Z"
# Longer than a line of `stat` gets.
MAX_STAT = 4096


@dataclass(frozen=True)
class Process:
    """One line of `/proc/<pid>/stat`, as far as tests need it."""

    pid: int
    state: str
    parent: int
    group: int


def list_processes() -> Iterator[Process]:
    """Yield the processes of this machine, without those that end meanwhile.

    Children are found by their parent: `/proc/<pid>/task/<thread>/children` is not complete while threads and children
    end, and vanishes with its thread.
    """
    # Not by `Path.glob`, which takes twice as long: this is called before and after each test.
    for name in os.listdir(PROC):
        if not name.isdigit():
            continue
        text = read_if_there(f"{PROC}/{name}/stat", MAX_STAT)
        if text:
            # The name of the program stands in parentheses and may itself hold spaces and parentheses.
            state, parent, group = text.rpartition(")")[2].split(maxsplit=3)[:3]
            yield Process(int(name), state, int(parent), int(group))


def command_line(pid: int) -> str:
    """Return the command line of a process; empty if it has ended."""
    return read_if_there(PROC / str(pid) / "cmdline").replace("\0", " ").strip()


def memory_map(pid: int) -> str:
    """Return the memory map of a process; empty if it has ended or is not ours to read."""
    return read_if_there(PROC / str(pid) / "maps")


def read_if_there(path: str | Path, limit: int = -1) -> str:
    """Return the first bytes of a file below /proc; empty if it is gone, also between opening and reading."""
    try:
        with open(path, "rb", buffering=0) as file:
            return (file.read(limit) or b"").decode(errors="replace")
    except OSError:
        return ""
