"""Files of words for the client scenario `words`: an array and a label per word, and lists of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

CLASSES = "abc"


def write_list(directory: Path, name: str, count: int, seed: int) -> Path:
    """Write `count` words and a list of them; the classes take turns.

    A word is an array of integers, shape `[3 to 6, 4]`; the column of its class has the largest sum.
    """
    rng = np.random.default_rng(seed)
    paths = []
    for i in range(count):
        label = i % len(CLASSES)
        word = rng.integers(0, 3, (rng.integers(3, 7), 4))
        word[:, label] += 3
        path = directory / f"{name}_{i}.npy"
        np.save(path, word)
        path.with_suffix(".label.txt").write_text(f"{CLASSES[label]}\n")
        paths.append(str(path))
    listed = directory / f"{name}.lst"
    listed.write_text("\n".join(paths))
    return listed


def words_of(listed: Path) -> list[str]:
    """Return the paths of the words of a list."""
    return listed.read_text().split()


def labels_of(listed: Path) -> list[str]:
    """Return the labels of the words of a list."""
    return [Path(path).with_suffix(".label.txt").read_text().strip() for path in words_of(listed)]
