"""Wall time of an epoch: the toolkit against bare `keras.Model.fit` on the same arrays, model and settings.

    python benchmarks/epoch_time.py [--pairs 7] [--samples 60000]
    KERAS_BACKEND=jax python benchmarks/epoch_time.py

Both train a tiny MLP (28x28 -> 128 -> 10, batch 16, Adam) in one process, epoch by epoch in turn, after a warm-up epoch
of each. The toolkit runs with default params: its epochs include the log, the checkpoint, the history, TensorBoard
events and the export of the best model (which, without validation, is every epoch whose loss falls). The last row
compares the toolkit with and without means over windows of 50 updates.
"""

import argparse
import logging
import tempfile
from pathlib import Path

from images import BACKEND, bare, toolkit
from pairs import race, report


def main() -> None:
    """Parse the command line and measure with and without the export of the best model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="epochs of each that are compared")
    parser.add_argument("--samples", type=int, default=60_000, help="number of images")
    args = parser.parse_args()
    logging.getLogger("tfaip").setLevel(logging.WARNING)
    epochs = args.pairs + 2  # the first one warms up, the last one is not measured
    for export_best in (True, False):
        with tempfile.TemporaryDirectory() as directory:
            ours = toolkit("mlp", args.samples, epochs, Path(directory) / "run", export_best=export_best)
            seconds, against = race([ours, bare("mlp", args.samples, epochs)])
        report(f"{BACKEND}, export_best {export_best}, toolkit / bare fit", seconds, against)
    with tempfile.TemporaryDirectory() as directory:
        runs = []
        for every in (50, 0):
            fields = {"export_best": False, "log_every_n_updates": every}
            runs.append(toolkit("mlp", args.samples, epochs, Path(directory) / f"every_{every}", **fields))
        report(f"{BACKEND}, log_every_n_updates 50 / 0", *race(runs))


if __name__ == "__main__":
    main()
