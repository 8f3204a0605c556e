"""Start of `tfaip-train`: from the start of the process to the end of the first batches, by part; and a script by hand.

    python benchmarks/start.py [--pairs 7]
    KERAS_BACKEND=jax python benchmarks/start.py

Both train the digits of the tutorial with the same layers, and end after the first execution of the compiled step (16
batches of the toolkit, where it compiles several steps at once; one of the script). Printed are the medians of the
parts of both, of the ratio of a pair, and of the share of the check before the first epoch, in which the model is
exported, loaded and compared (on JAX without TensorFlow, which the first SavedModel imports after the first epoch).
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from pairs import run_apart

from tfaip.util.terminal import print_table

BACKEND = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
PARTS = {"toolkit": ("imports", "build", "check", "first batches"), "script": ("imports", "build", "first batches")}


class Parts:
    """Times of the parts of a process.

    Args:
        begin: time of its start, in seconds since 1970.
    """

    def __init__(self, begin: float) -> None:
        self._last = self._begin = begin
        self._seconds: dict[str, float] = {}

    def end(self, name: str) -> None:
        """Note that a part ends now."""
        now = time.time()
        self._seconds[name], self._last = now - self._last, now

    def finish(self) -> None:
        """Print the parts, and end the process."""
        print(json.dumps({**self._seconds, "total": self._last - self._begin}), flush=True)
        os._exit(0)

    def after(self, name: str, function: Callable[..., Any], begins: str) -> Callable[..., Any]:
        """Return a function that is a part; what was before it is the part `begins`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self.end(begins)
            result = function(*args, **kwargs)
            self.end(name)
            return result

        return call


def first_batches(parts: Parts) -> Any:
    """Return a callback that ends the process after the first execution."""
    import keras

    class First(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            parts.end("first batches")
            parts.finish()

    return First()


def toolkit(parts: Parts) -> None:
    """Train the tutorial."""
    import tfaip.scenario.tutorial.full.graph
    import tfaip.scenario.tutorial.full.model  # noqa: F401 (imported by the scenario when it builds them)
    from tfaip.export.formats import ExportFormats
    from tfaip.scripts import train
    from tfaip.trainer import trainer

    parts.end("imports")
    ExportFormats.begin_check = parts.after("check", ExportFormats.begin_check, "build")  # type: ignore[method-assign]
    setup_callbacks = trainer.Trainer.setup_callbacks
    trainer.Trainer.setup_callbacks = lambda *args: [*setup_callbacks(*args), first_batches(parts)]  # type: ignore
    with tempfile.TemporaryDirectory() as directory:
        train.main(["tfaip.scenario.tutorial.full", "--trainer.output_dir", f"{directory}/run"])


def script(parts: Parts) -> None:
    """Train the same layers on the same images by hand."""
    import keras
    import numpy as np
    from sklearn.datasets import load_digits

    parts.end("imports")
    digits = load_digits()
    images = (digits.images * (255 / 16)).astype("uint8")[..., None] / np.float32(255)
    labels = digits.target.astype("int32")
    layers: list[Any] = []
    for filters in (32, 64):
        layers += [keras.layers.Conv2D(filters, 3, padding="same", activation="relu"), keras.layers.MaxPooling2D()]
    layers += [keras.layers.Flatten(), keras.layers.Dense(128, activation="relu"), keras.layers.Dropout(0.2)]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=[keras.metrics.SparseCategoricalAccuracy(name="acc")])
    parts.end("build")
    model.fit(images, labels, batch_size=16, verbose=0, callbacks=[first_batches(parts)])


def main() -> None:
    """Parse the command line, and run both in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--one", nargs=2, metavar=("NAME", "BEGIN"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        {"toolkit": toolkit, "script": script}[args.one[0]](Parts(float(args.one[1])))
        return
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in PARTS}
    for _ in range(args.pairs):
        for name, found in runs.items():
            found.append(run_apart("--one", name, time.time()))
            print(f"{name}: {json.dumps(found[-1])}", file=sys.stderr, flush=True)
    print(BACKEND)
    columns = [*PARTS["toolkit"], "total"]
    rows = [[name, *(median(found, column) for column in columns)] for name, found in runs.items()]
    print_table(["", *columns], rows)
    pairs = list(zip(runs["toolkit"], runs["script"], strict=True))
    share = statistics.median(ours["check"] / ours["total"] for ours, _ in pairs)
    ratio = statistics.median(ours["total"] / bare["total"] for ours, bare in pairs)
    print(f"share of the check: {share:.0%}; toolkit / script: {ratio:.2f}")


def median(runs: list[dict[str, float]], part: str) -> str:
    """Return the median of a part, in seconds."""
    return f"{statistics.median(run[part] for run in runs):.2f} s" if part in runs[0] else ""


if __name__ == "__main__":
    main()
