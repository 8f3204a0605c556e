"""What is left after SIGKILL at random moments: checkpoints of the toolkit, and those that Keras has.

    python benchmarks/survival.py [--kills 20] [--seed 1]
    KERAS_BACKEND=jax python benchmarks/survival.py

The contestants of `checkpoints.py` that write one checkpoint per epoch train the same network (epochs of about a
second). Each is killed at the same moments, measured from the end of its first epoch, and its newest checkpoint is
read by a new process in the way that its documentation gives. Printed is, per contestant, how many of the runs could
be read, whether the weights were those at the end of their epoch, and how many finished epochs were lost.
"""

import argparse
import contextlib
import hashlib
import importlib.util
import json
import logging
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from checkpoints import BATCH_SIZE, NETWORK, bare_model, keras_checkpoints
from images import BACKEND, NETWORKS, BenchmarkScenario, benchmark_params, keras, synthetic_images

from tfaip.util.terminal import print_table

CONTESTANTS = ("toolkit", "BackupAndRestore", "OrbaxCheckpoint")
STEPS, EPOCHS = 8, 1000
# The moments of the kills, in seconds after the first epoch.
LATEST_S = 6.0


class Tell(keras.callbacks.Callback):
    """Prints after each epoch what its weights are."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        print(f"{epoch + 1} {digest(self.model.trainable_variables)}", flush=True)


class Restored(Exception):
    """Ends a training that has just read its checkpoint."""


def digest(weights: list[keras.Variable]) -> str:
    """Return a checksum of all weights that are no large matrices."""
    small = [keras.ops.convert_to_numpy(weight) for weight in weights if len(weight.shape) == 1]
    return hashlib.sha256(b"".join(weight.tobytes() for weight in small)).hexdigest()[:16]


def train(name: str, directory: Path, at_begin: Callable[[keras.Model, int], None] | None = None) -> None:
    """Train a contestant until it is killed, from its newest checkpoint if there is one.

    Args:
        name: of the contestant.
        directory: of its checkpoints.
        at_begin: called instead with the model and the number of finished epochs when the training begins.
    """
    samples = BATCH_SIZE * STEPS
    if name == "toolkit":
        params = benchmark_params(NETWORK, samples, EPOCHS, directory / "run", BATCH_SIZE)
        params.export_best = params.export_final = False
        trainer = BenchmarkScenario.create_trainer(params, restore=at_begin is not None)
        trainer.train([Tell() if at_begin is None else begin(at_begin)])
        return
    images, labels = synthetic_images(samples, NETWORKS[NETWORK].shape)
    model = bare_model()
    if name == "OrbaxCheckpoint" and at_begin is not None:
        # Not `keras.saving.load_model`, which (Keras 3.15) gives a `Sequential` its first weights again.
        model.load_weights(str(directory / "orbax"))
        at_begin(model, int(model.optimizer.iterations) // STEPS)
        return
    save = keras_checkpoints(name, directory)
    tell = Tell() if at_begin is None else begin(at_begin)
    # Told before it is saved, as in the toolkit.
    model.fit(images, labels, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=0, callbacks=[tell, save])


def begin(at_begin: Callable[[keras.Model, int], None]) -> keras.callbacks.Callback:
    """Return a callback that calls a function at the first epoch, and ends the training."""

    class First(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            at_begin(self.model, epoch)
            raise Restored

    return First()


def restore(name: str, directory: Path) -> None:
    """Read the newest checkpoint, and print the number of its epoch and what its weights are."""

    def tell(model: keras.Model, epoch: int) -> None:
        print(json.dumps({"epoch": epoch, "digest": digest(model.trainable_variables)}), flush=True)

    with contextlib.suppress(Restored):
        train(name, directory, tell)


def kill_once(name: str, seconds: float) -> dict[str, Any]:
    """Kill a training, and read what is left of it."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, __file__, "--in", directory, "--contestant", name]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)  # noqa: S603
        assert process.stdout is not None  # noqa: S101 (a pipe)
        told = [process.stdout.readline()]
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        told += process.stdout.readlines()
        process.wait()
        digests = {int(number): checksum for number, checksum in (line.split() for line in told if line.endswith("\n"))}
        result = subprocess.run([*command, "--restore"], capture_output=True, text=True, check=False)  # noqa: S603
    found = {"told": max(digests), "epoch": None, "is_equal": False, "error": ""}
    lines = result.stdout.splitlines()
    if not lines:
        return {**found, "error": result.stderr.strip().splitlines()[-1][:200]}
    read = json.loads(lines[-1])
    # An epoch that ended at the moment of the kill may not have been told.
    is_equal = digests.get(read["epoch"]) == read["digest"]
    same = [epoch for epoch, checksum in digests.items() if checksum == read["digest"]]
    return {**found, "epoch": read["epoch"], "is_equal": is_equal, "same_as": same}


def main() -> None:
    """Parse the command line, and kill all contestants in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="of each contestant")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--contestant", choices=CONTESTANTS, help=argparse.SUPPRESS)
    parser.add_argument("--in", dest="directory", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--restore", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant is not None:
        logging.getLogger("tfaip").setLevel(logging.ERROR)
        (restore if args.restore else train)(args.contestant, args.directory)
        return
    names = [n for n in CONTESTANTS if n != "OrbaxCheckpoint" or importlib.util.find_spec("orbax") is not None]
    moments = [random.Random(args.seed + i).uniform(0, LATEST_S) for i in range(args.kills)]  # noqa: S311 (no secret)
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seconds in moments:
        for name in names:
            runs[name].append(kill_once(name, seconds))
            print(f"{name}, {seconds:.2f} s: {json.dumps(runs[name][-1])}", file=sys.stderr, flush=True)
    print(BACKEND)
    print_table(["", "read", "equal weights", "lost epochs: mean, most"], [row(name, runs[name]) for name in names])


def row(name: str, runs: list[dict[str, Any]]) -> list[str]:
    """Return a row of the table."""
    lost = [run["told"] - (run["epoch"] or 0) for run in runs]
    read = sum(run["epoch"] is not None for run in runs)
    equal = sum(run["is_equal"] for run in runs)
    return [name, f"{read} of {len(runs)}", f"{equal} of {read}", f"{sum(lost) / len(lost):.1f}, {max(lost)}"]


if __name__ == "__main__":
    main()
