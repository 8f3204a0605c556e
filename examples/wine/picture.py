"""Draw how often each sort is taken for which: `python picture.py predicted.jsonl sorts.svg`."""

import json
import sys
from pathlib import Path

import numpy as np

CELL, LEFT, TOP = 70, 80, 50  # in pixels


def cell(truth: int, found: int, count: int, of: int) -> str:
    """Return a square, the darker the larger its share of the true sort, and the number in it."""
    x, y, share = LEFT + found * CELL, TOP + truth * CELL, count / of
    place = f'x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}"'
    fill = "#1b6f9c" if truth == found else "#c0341d"
    text = f'x="{x + CELL / 2}" y="{y + CELL / 2 + 5}" fill="{"white" if share > 0.5 else "#202020"}"'
    return f'<rect {place} fill="{fill}" fill-opacity="{0.05 + 0.95 * share:.2f}"/><text {text}>{count}</text>'


def main(predicted: Path, picture: Path) -> None:
    """Write the picture; `predicted` has the targets (`--predict.include_targets True`)."""
    samples = [json.loads(text) for text in predicted.read_text(encoding="utf-8").splitlines()]
    counts = np.zeros((3, 3), int)
    for sample in samples:
        counts[sample["targets"]["sort"][0], np.argmax(sample["outputs"]["prob"])] += 1
    cells = [cell(*place, count, max(counts[place[0]].sum(), 1)) for place, count in np.ndenumerate(counts)]
    middle = 1.5 * CELL
    texts = [f'<text x="{LEFT + (n + 0.5) * CELL}" y="{TOP - 8}">sort {n}</text>' for n in range(3)]
    texts += [f'<text x="{LEFT - 30}" y="{TOP + (n + 0.5) * CELL + 5}">sort {n}</text>' for n in range(3)]
    texts.append(f'<text x="{LEFT + middle}" y="18">predicted</text>')
    texts.append(f'<text transform="translate(18 {TOP + middle}) rotate(-90)">true</text>')
    size = f'width="{LEFT + 3 * CELL + 20}" height="{TOP + 3 * CELL + 20}"'
    style = 'font-family="sans-serif" font-size="14" text-anchor="middle"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>'
    picture.write_text("\n".join([head, *cells, *texts, "</svg>\n"]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
