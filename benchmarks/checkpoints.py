"""Checkpoints after every epoch: added time, time that the training waits, and memory; the toolkit and what Keras has.

    python benchmarks/checkpoints.py [--rounds 3] [--epochs 6] [--steps 24]
    KERAS_BACKEND=jax python benchmarks/checkpoints.py

An MLP of 20 million weights with Adam (240 MB of state), epochs of about 3 s on two cores. Every contestant is a
process of its own, and all of them take turns in every round:

- `fit`, `toolkit`: bare `keras.Model.fit`, and the toolkit; nothing is written
- `toolkit checkpoints`: a checkpoint after every epoch
- `toolkit all`: the same, and the best model is exported after every epoch
- `BackupAndRestore`: the callback of Keras in `fit`, once per epoch
- `OrbaxCheckpoint`: the same with its (asynchronous) callback, if `orbax-checkpoint` is installed

Printed are medians over all epochs but the first two: the time of an epoch, what it is more than that of the same
training without checkpoints in the same round (by the clock, and of CPU time, which says more on a busy machine), the
time of an epoch in which the training waits for what is written, and the largest memory of the process.
"""

import argparse
import importlib.util
import itertools
import json
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from images import BACKEND, NETWORKS, RATE, Begin, keras, synthetic_images, toolkit
from pairs import run_apart

from tfaip.trainer.run.output import RunOutput
from tfaip.util.terminal import print_table

NETWORK, BATCH_SIZE, STEPS = "large", 64, 24
# Each with the one that writes nothing.
CONTESTANTS = {
    "fit": "fit",
    "toolkit": "toolkit",
    "toolkit checkpoints": "toolkit",
    "toolkit all": "toolkit",
    "BackupAndRestore": "fit",
    "OrbaxCheckpoint": "fit",
}
_WARM_UP = 2


class Waits:
    """Sums up the time that is spent in some methods, epoch by epoch."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._depth = 0
        self.epochs: list[tuple[float, float, float]] = []
        """Clock and CPU time at the beginning of each epoch, and the time spent in the epoch before."""

    def begin_epoch(self) -> None:
        """Note that an epoch begins."""
        self.epochs.append((time.perf_counter(), time.process_time(), self._seconds))
        self._seconds = 0.0

    def measured(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, with its time counted; calls within calls count once."""

        def call(*args: Any, **kwargs: Any) -> Any:
            start, self._depth = time.perf_counter(), self._depth + 1
            try:
                return function(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self._seconds += time.perf_counter() - start

        return call


def train(name: str, epochs: int, steps: int, directory: Path, waits: Waits) -> None:
    """Train one contestant."""
    samples = BATCH_SIZE * steps
    if name.startswith("toolkit"):
        for method in ("save_checkpoint", "save_history", "export_best", "wait", "check"):
            if hasattr(RunOutput, method):
                setattr(RunOutput, method, waits.measured(getattr(RunOutput, method)))
        toolkit(
            NETWORK,
            samples,
            epochs,
            directory / "run",
            BATCH_SIZE,
            write_checkpoints=name != "toolkit",
            export_best=name == "toolkit all",
            export_final=False,
        )(waits.begin_epoch)
        return
    callbacks: list[keras.callbacks.Callback] = [Begin(waits.begin_epoch)]
    if name != "fit":
        callbacks.append(keras_checkpoints(name, directory))
    callbacks[-1].on_epoch_end = waits.measured(callbacks[-1].on_epoch_end)
    images, labels = synthetic_images(samples, NETWORKS[NETWORK].shape)
    bare_model().fit(images, labels, batch_size=BATCH_SIZE, epochs=epochs, verbose=0, callbacks=callbacks)


def bare_model() -> keras.Model:
    """Return the network as Keras trains it, built, which BackupAndRestore needs."""
    model = NETWORKS[NETWORK].build()
    model.compile(keras.optimizers.Adam(RATE), "sparse_categorical_crossentropy", metrics=["accuracy"])
    model.build((None, *NETWORKS[NETWORK].shape))
    return model


def keras_checkpoints(name: str, directory: Path) -> keras.callbacks.Callback:
    """Return the callback of Keras with this name, which writes once per epoch."""
    if name == "OrbaxCheckpoint":
        return keras.callbacks.OrbaxCheckpoint(str(directory / "orbax"), save_freq="epoch", max_to_keep=2)
    return keras.callbacks.BackupAndRestore(str(directory / "backup"), save_freq="epoch")


def largest_memory() -> float:
    """Return the largest memory that this process has had so far, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def run_one(name: str, epochs: int, steps: int) -> None:
    """Train one contestant in this process; print its figures as JSON."""
    logging.getLogger("tfaip").setLevel(logging.WARNING)
    waits = Waits()
    with tempfile.TemporaryDirectory() as directory:
        train(name, epochs + _WARM_UP + 1, steps, Path(directory), waits)
    clock, cpu, waited = zip(*waits.epochs[_WARM_UP:], strict=True)
    figures = {"clock": differences(clock), "cpu": differences(cpu), "waits": waited[1:], "memory": largest_memory()}
    print(json.dumps(figures))


def differences(readings: Sequence[float]) -> list[float]:
    """Return the times between readings of a clock."""
    return [end - begin for begin, end in itertools.pairwise(readings)]


def main() -> None:
    """Parse the command line, and run all contestants in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes of each contestant")
    parser.add_argument("--epochs", type=int, default=6, help="measured epochs of each process")
    parser.add_argument("--steps", type=int, default=STEPS, help="batches of an epoch: so many that it takes about 3 s")
    parser.add_argument("--only", nargs="+", default=list(CONTESTANTS), choices=list(CONTESTANTS))
    parser.add_argument("--one", choices=list(CONTESTANTS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        run_one(args.one, args.epochs, args.steps)
        return
    names = list(args.only)
    if "OrbaxCheckpoint" in names and importlib.util.find_spec("orbax") is None:
        print("orbax-checkpoint is not installed: left out")
        names.remove("OrbaxCheckpoint")
    figures: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for _ in range(args.rounds):
        for name in names:
            figures[name].append(run_apart("--one", name, "--epochs", args.epochs, "--steps", args.steps))
            print(f"{name}: {json.dumps(figures[name][-1])}", file=sys.stderr, flush=True)
    print(BACKEND)
    rows = [row(name, runs, figures.get(CONTESTANTS[name], runs)) for name, runs in figures.items()]
    print_table(["", "epoch", "added", "of CPU time", "training waits: median, largest", "memory"], rows)


def row(name: str, runs: list[dict[str, Any]], without: list[dict[str, Any]]) -> list[str]:
    """Return a row of the table: medians of the rounds."""
    waits = [seconds for run in runs for seconds in run["waits"]]
    memory = statistics.median(run["memory"] for run in runs)
    return [
        name,
        f"{statistics.median(statistics.median(run['clock']) for run in runs):.2f} s",
        added("clock", runs, without),
        added("cpu", runs, without),
        f"{statistics.median(waits):.3f} s, {max(waits):.3f} s",
        f"{memory:.0f} MB",
    ]


def added(clock: str, runs: list[dict[str, Any]], without: list[dict[str, Any]]) -> str:
    """Return the median of what the epochs take more than without checkpoints, in seconds and as a share."""
    pairs = [(statistics.median(a[clock]), statistics.median(b[clock])) for a, b in zip(runs, without, strict=True)]
    seconds, share = (statistics.median(values) for values in zip(*((a - b, a / b - 1) for a, b in pairs), strict=True))
    return f"{seconds:.2f} s ({share:.0%})"


if __name__ == "__main__":
    main()
