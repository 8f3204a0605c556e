"""Fuzz the command lines: `python -m test.scripts.fuzz_command_lines [--seed 1] [--lines 4000] [--train 150]`.

Every flag of some scenarios is tried with odd values, in this process. A line must be refused with exit code 2 and one
line of at most 300 characters, or accepted. A seeded part of the accepted ones is trained, and must end right or with
one clear line. Nothing may be written outside of what the line names.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from test.support.fuzz.lines import MAINS, OF_TUTORIAL, SHORT, TUTORIAL, Line, command_lines, training_lines
from test.support.fuzz.session import Ended, Place, complaints, run_here, run_whole_here
from tfaip.util.text import shorten


def resolve(line: Line) -> tuple[bool, list[str]]:
    """Resolve a line without running it; returns if it was accepted, and what is wrong."""
    ended = run_here(MAINS[line.command], [*line.argv, "--print_config"])
    found = complaints(ended, may_fail=False)
    return ended.rc == 0, [f"{complaint}: {shorten(ended.stderr, 400)}" for complaint in found]


def run(place: Place, line: Line) -> tuple[Ended, list[str]]:
    """Run a line that was accepted; returns how it ended, and what is wrong."""
    ended = run_whole_here(MAINS[line.command], line.argv)
    found = [f"{complaint}: {shorten(ended.stderr, 600)}" for complaint in complaints(ended, may_fail=True)]
    found += place.differences(line.targets)
    place.reset()
    return ended, found


def resolve_all(place: Place, generated: Sequence[Line]) -> tuple[list[Line], list[str]]:
    """Resolve lines; returns those that were accepted and can be run, and what is wrong."""
    accepted, wrong = [], []
    for line in generated:
        is_accepted, found = resolve(line)
        if is_accepted and line.can_be_run:
            accepted.append(line)
        wrong += [f"{show(line)}\n    {complaint}" for complaint in found]
    return accepted, wrong + place.differences([])


def show(line: Line) -> str:
    """A line as it can be read, without what all lines of the scenario have in common."""
    words = " ".join(shorten(word, 60) for word in line.words)
    start = " ".join(shorten(word, 40) for word in line.start)
    classes = " ".join(" ".join([flag, *words]) for flag, words in line.base[4:] if flag != line.flag)
    return f"{line.command} {start} {classes} | {line.flag} {words}"


def main() -> int:
    """Fuzz, print what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=4000, help="Command lines of tfaip-train to resolve")
    parser.add_argument("--train", type=int, default=150, help="Accepted ones to train")
    parser.add_argument("--others", type=int, default=1500, help="Command lines of the other commands to resolve")
    parser.add_argument("--run", type=int, default=50, help="Accepted ones to run")
    args = parser.parse_args()
    rng = random.Random(args.seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory).resolve())
        place.fill(train_tutorial if args.others else None)
        with place.entered():
            found = 0
            for kind, generate, lines, runs in (
                ("training", training_lines, args.lines, args.train),
                ("other", command_lines, args.others, args.run),
            ):
                generated = generate(args.seed, lines) if lines else []
                begin = time.monotonic()
                accepted, wrong = resolve_all(place, generated)
                print(*wrong, sep="\n")
                print(
                    f"{len(generated)} {kind} lines in {time.monotonic() - begin:.0f} s: {len(accepted)} accepted, "
                    f"{len(wrong)} findings",
                    flush=True,
                )
                found += len(wrong) + _run_all(place, spread(accepted, runs, rng))
    return int(found > 0)


def spread(accepted: Sequence[Line], count: int, rng: random.Random) -> list[Line]:
    """`count` lines of as many different flags as possible."""
    by_flag: dict[tuple[str, str], list[Line]] = {}
    for line in rng.sample(accepted, len(accepted)):
        by_flag.setdefault((line.command, line.flag), []).append(line)
    rounds = itertools.zip_longest(*by_flag.values())
    return [line for one in rounds for line in one if line is not None][:count]


def train_tutorial(directory: Path) -> None:
    """Make the run that the other commands use."""
    flags = {**SHORT, **OF_TUTORIAL, "--trainer.output_dir": (str(directory / "run"),)}
    words = [word for flag, given in flags.items() for word in (flag, *given)]
    ended = run_whole_here(MAINS["train"], [TUTORIAL, *words], seconds=200)
    assert ended.rc == 0, ended


def _run_all(place: Place, chosen: Sequence[Line]) -> int:
    wrong = 0
    for line in chosen:
        print(show(line), end="", flush=True)
        begin = time.monotonic()
        ended, found = run(place, line)
        wrong += bool(found)
        print(f": exit code {ended.rc} after {time.monotonic() - begin:.1f} s", end=" ")
        print(ended.stderr.strip() if ended.rc else "", *found, sep="\n    ", flush=True)
    print(f"{len(chosen)} runs: {wrong} wrong", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
