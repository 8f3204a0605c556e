"""Fuzz the command lines: `python -m test.scripts.fuzz_command_lines [--seed 1] [--lines 4000] [--train 150]`.

Every flag of some scenarios is tried with odd values, in this process. A line must be refused with exit code 2 and one
line of at most 300 characters, or accepted. A seeded part of the accepted ones is trained, and must end right or with
one clear line. Nothing may be written outside of what the line names.
"""

from __future__ import annotations

import argparse
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

from test.support.fuzz.lines import Line, lines
from test.support.fuzz.session import Ended, Place, complaints, run_here, run_training_here
from tfaip.scripts import train
from tfaip.util.text import shorten


def resolve(line: Line) -> tuple[bool, list[str]]:
    """Resolve a line without training it; returns if it was accepted, and what is wrong."""
    ended = run_here(train.main, [*line.argv, "--print_config"])
    found = complaints(ended, may_fail=False)
    return ended.rc == 0, [f"{complaint}: {shorten(ended.stderr, 400)}" for complaint in found]


def train_in(place: Place, line: Line) -> tuple[Ended, list[str]]:
    """Train a line that was accepted; returns how it ended, and what is wrong."""
    ended = run_training_here(train.main, line.argv)
    found = [f"{complaint}: {shorten(ended.stderr, 600)}" for complaint in complaints(ended, may_fail=True)]
    found += place.differences(line.targets)
    place.reset()
    return ended, found


def show(line: Line) -> str:
    """A line as it can be read, without what all lines of the scenario have in common."""
    words = " ".join(shorten(word, 60) for word in line.words)
    classes = " ".join(" ".join([flag, *words]) for flag, words in line.base[4:] if flag != line.flag)
    return f"{shorten(line.scenario, 40)} {classes} | {line.flag} {words}"


def main() -> int:
    """Fuzz, print what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=4000)
    parser.add_argument("--train", type=int, default=150)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory).resolve())
        place.fill()
        with place.entered():
            accepted, wrong = _resolve_all(place, lines(args.seed, args.lines))
            accepted = [line for line in accepted if line.can_be_tried]
            chosen = random.Random(args.seed).sample(accepted, min(args.train, len(accepted)))  # noqa: S311
            return int(wrong + _train_all(place, chosen) > 0)


def _resolve_all(place: Place, generated: Sequence[Line]) -> tuple[list[Line], int]:
    begin, accepted, wrong = time.monotonic(), [], 0
    for line in generated:
        is_accepted, found = resolve(line)
        if is_accepted:
            accepted.append(line)
        if found:
            wrong += 1
            print(show(line), *found, sep="\n    ", flush=True)
    beside = place.differences([])
    print(*beside, sep="\n")
    seconds = time.monotonic() - begin
    print(
        f"{len(generated)} lines in {seconds:.0f} s: {len(accepted)} accepted, {wrong} wrong, {len(beside)} paths "
        "written",
        flush=True,
    )
    return accepted, wrong + len(beside)


def _train_all(place: Place, chosen: Sequence[Line]) -> int:
    wrong = 0
    for line in chosen:
        print(show(line), end="", flush=True)
        begin = time.monotonic()
        ended, found = train_in(place, line)
        wrong += bool(found)
        print(f": exit code {ended.rc} after {time.monotonic() - begin:.1f} s", end=" ")
        print(ended.stderr.strip() if ended.rc else "", *found, sep="\n    ", flush=True)
    print(f"{len(chosen)} runs: {wrong} wrong")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
