"""Memory and time of list files, as ratios to a list of strings in a process of its own.

    python benchmarks/list_files.py [--lines 10000 1000000 10000000] [--rounds 3]

Memory is what the process holds after the list was read, above what it held before, with 200,000 random lines read.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from pairs import run_apart

READS = 200_000


def write(path: Path, lines: int) -> None:
    """Write names of 36 bytes."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"images/part_{number % 1000:04d}/file_{number:09d}.png\n" for number in range(lines))


def strings(path: Path) -> Sequence[str]:
    """Return the lines as Python reads them."""
    with path.open(encoding="utf-8") as file:
        return [line.strip() for line in file]


def toolkit(path: Path) -> Sequence[str]:
    """Return the lines as list files of the toolkit have them."""
    from tfaip.data.generators.listsfile import TextLines

    return TextLines(path, "#")


READERS: dict[str, Callable[[Path], Sequence[str]]] = {"strings": strings, "toolkit": toolkit}


def measure(reader: str, path: Path) -> None:
    """Print megabytes, seconds to read the file, and microseconds for a random line."""
    import numpy as np  # noqa: F401 - before the first measurement: the toolkit needs it

    READERS[reader](Path(__file__))
    before, begin = resident(), time.process_time()
    lines = READERS[reader](path)
    read = time.process_time() - begin
    rng = random.Random(1)  # noqa: S311
    indices = [rng.randrange(len(lines)) for _ in range(READS)]
    begin = time.process_time()
    for index in indices:
        lines[index]
    each = (time.process_time() - begin) / READS * 1e6
    print(json.dumps([(resident() - before) / 1e6, read, each]))


def resident() -> int:
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        measure(args.one[0], Path(args.one[1]))
        return
    print("lines       reader     MB   s to read   us a line")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "list.txt"
        for number in args.lines:
            write(path, number)
            rounds = {reader: [run_apart("--one", reader, path) for _ in range(args.rounds)] for reader in READERS}
            medians = {reader: [statistics.median(v) for v in zip(*rounds[reader], strict=True)] for reader in READERS}
            for reader, values in medians.items():
                print(f"{number:<11} {reader:<7} {values[0]:7.1f} {values[1]:9.2f} {values[2]:9.2f}")
            ratios = [ours / theirs for ours, theirs in zip(medians["toolkit"], medians["strings"], strict=True)]
            print(f"{number:<11} ratio   {ratios[0]:7.2f} {ratios[1]:9.2f} {ratios[2]:9.2f}")


if __name__ == "__main__":
    main()
