"""Contestants that take turns, round by round, so that a busy machine hits all of them alike."""

import json
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Turn = Callable[[], None]


@dataclass(frozen=True)
class Seconds:
    """What a round took: by the clock, and of the processors, with ended children. The second says more when busy."""

    wall: float
    cpu: float

    @classmethod
    def now(cls) -> "Seconds":
        """Return readings of both clocks."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return cls(time.perf_counter(), time.process_time() + children.ru_utime + children.ru_stime)

    def since(self, start: "Seconds") -> "Seconds":
        """Return the time between two readings."""
        return Seconds(self.wall - start.wall, self.cpu - start.cpu)


class _Race:
    """Hands the turn from thread to thread and takes the time of every round."""

    def __init__(self, number: int) -> None:
        self._ready = [threading.Semaphore(0) for _ in range(number)]
        self._ended = [False] * number
        self.seconds: list[list[Seconds]] = [[] for _ in range(number)]
        self._started: list[Seconds | None] = [None] * number
        self.errors: list[BaseException] = []

    def run(self, index: int, contestant: Callable[[Turn], None]) -> None:
        self._ready[index].acquire()
        try:
            contestant(lambda: self._turn(index))
        except BaseException as error:  # raised again by the main thread
            self.errors.append(error)
        finally:
            self._ended[index] = True
            self.hand_on(index)

    def _turn(self, index: int) -> None:
        started = self._started[index]
        if started is not None:
            self.seconds[index].append(Seconds.now().since(started))
        self.hand_on(index)
        self._ready[index].acquire()
        self._started[index] = Seconds.now()

    def hand_on(self, index: int) -> None:
        order = [(index + step) % len(self._ready) for step in range(1, len(self._ready) + 1)]
        running = [other for other in order if not self._ended[other]]
        if running:
            self._ready[running[0]].release()


def race(contestants: list[Callable[[Turn], None]]) -> list[list[Seconds]]:
    """Run contestants in turn.

    Args:
        contestants: functions that call their argument when a round begins; the last round of each is not measured.

    Returns:
        the seconds of every round but the first, for each contestant.
    """
    state = _Race(len(contestants))
    threads = [threading.Thread(target=state.run, args=item) for item in enumerate(contestants)]
    for thread in threads:
        thread.start()
    state.hand_on(-1)
    for thread in threads:
        thread.join()
    if state.errors:
        raise state.errors[0]
    return [rounds[1:] for rounds in state.seconds]


def race_calls(ours: Callable[[], object], theirs: Callable[[], object], pairs: int) -> tuple[list[float], list[float]]:
    """Return the seconds of the calls of two functions, which are called in turn, after a call of each to warm up."""
    seconds: dict[Callable[[], object], list[float]] = {ours: [], theirs: []}
    for work in seconds:
        work()
    for _ in range(pairs):
        for work, taken in seconds.items():
            started = time.perf_counter()
            work()
            taken.append(time.perf_counter() - started)
    return seconds[ours], seconds[theirs]


def ratio_text(numbers: Sequence[float], against: Sequence[float]) -> str:
    """Return median and range of the ratios of pairs of numbers."""
    ratios = [number / other for number, other in zip(numbers, against, strict=True)]
    return f"median {statistics.median(ratios):.3f} (min {min(ratios):.3f}, max {max(ratios):.3f}, {len(ratios)} pairs)"


def report(name: str, seconds: list[Seconds], against: list[Seconds]) -> None:
    """Print medians of the times, and median and range of the ratios of the pairs."""
    walls = [[one.wall for one in rounds] for rounds in (seconds, against)]
    cpu = [[one.cpu for one in rounds] for rounds in (seconds, against)]
    medians = " and ".join(f"{statistics.median(wall):.3f} s" for wall in walls)
    print(f"{name}: {medians}, ratio {ratio_text(*walls)}, of CPU time {ratio_text(*cpu)}", flush=True)


def run_apart(*arguments: object, env: Mapping[str, str] | None = None) -> Any:
    """Run the script once more, in a process of its own, and return the JSON in the last line that it prints.

    Args:
        arguments: of the command line.
        env: variables of the environment; None: those of this process.

    Raises:
        SystemExit: if it fails.
    """
    command = [sys.executable, sys.argv[0], *map(str, arguments)]
    result = subprocess.run(command, env=env, capture_output=True, text=True, check=False)  # noqa: S603 (the script)
    if result.returncode:
        raise SystemExit(f"{' '.join(command)} has failed:\n{result.stderr}")
    return json.loads(result.stdout.splitlines()[-1])
