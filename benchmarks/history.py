"""Time that the history of a training takes in each epoch, and its memory, by the number of epochs.

    python benchmarks/history.py [--epochs 100 1000 10000] [--rounds 5]

An epoch here: eight values are recorded, the best epoch and the last scores are looked up, and the texts of the history
and of the state of a checkpoint are made, as in each epoch of a training. The peer is Python's `json` with the same
records.
"""

import argparse
import json
import statistics
import time
import tracemalloc

from tfaip.trainer.history import EpochRecord, History

NAMES = [f"{kind}_{name}" for kind in ("train", "val") for name in ("loss", "accuracy", "error", "confidence")]


def record(epoch: int) -> EpochRecord:
    """Return the record of an epoch."""
    values = {name: 1 / (epoch + i + 0.123456789) for i, name in enumerate(NAMES)}
    return EpochRecord(0.001, values, {"updates": epoch * 100, "seconds": 1.23456, "stage": "main"}, 0.001)


def epoch_seconds(history: History, epoch: int) -> float:
    """Return the time of all that one epoch does with its history."""
    started = time.perf_counter()
    history.record(epoch, record(epoch))
    history.best_epoch("val_loss", "min")
    history.last_evaluated("val_loss", 10, epoch + 1)
    history.scores("val_loss")
    for _ in ("history file", "checkpoint"):
        history.text()
    return time.perf_counter() - started


def json_seconds(records: dict[str, object]) -> float:
    """Return the time of the two texts by Python's `json`, indented as files for people are."""
    started = time.perf_counter()
    for indent in (2, 1):
        json.dumps(records, indent=indent)
    return time.perf_counter() - started


def main() -> None:
    """Parse the command line and print a line for each number of epochs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, nargs="+", default=[100, 1000, 10_000], help="completed epochs")
    parser.add_argument("--rounds", type=int, default=5, help="epochs of each that are measured")
    args = parser.parse_args()
    print(f"{'epochs':>7} {'toolkit, ms':>12} {'json, ms':>9} {'ratio':>6} {'memory, MB':>11} {'file, MB':>9}")
    for epochs in args.epochs:
        tracemalloc.start()
        history = History({epoch: record(epoch) for epoch in range(1, epochs + 1)})
        text = history.text()
        memory = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        ours = [epoch_seconds(history, epochs + i) for i in range(1, args.rounds + 1)]
        peer = [json_seconds(json.loads(text)) for _ in range(args.rounds)]
        mine, other = statistics.median(ours), statistics.median(peer)
        print(
            f"{epochs:7} {mine * 1e3:12.2f} {other * 1e3:9.2f} {mine / other:6.3f} {memory / 1e6:11.1f} "
            f"{len(text) / 1e6:9.1f}"
        )


if __name__ == "__main__":
    main()
