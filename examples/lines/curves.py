"""Draw a value of several trainings over their epochs: python curves.py PICTURE VALUE RUN ..."""

import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("agg")
from matplotlib import pyplot


def main(picture: str, value: str, *runs: str) -> None:
    """Draw a curve per run, with a mark at the first epoch of each stage."""
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="constrained")
    for run in runs:
        records = json.loads((Path(run) / "history.json").read_text())
        points = {int(epoch): record["values"][value] for epoch, record in records.items()}
        stages = [record["meta"].get("stage") for record in records.values()]
        first = [i for i in range(len(stages)) if i == 0 or stages[i] != stages[i - 1]]
        axes.semilogy(list(points), list(points.values()), marker="o", markevery=first, label=Path(run).name)
    axes.set_xlabel("epoch")
    axes.set_ylabel(value)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(picture, dpi=100)


if __name__ == "__main__":
    main(*sys.argv[1:])
