"""Draw predicted over true numbers: `python picture.py predicted.jsonl progression.svg`."""

import json
import sys
from pathlib import Path

TARGET = "progression"
LARGEST, STEP = 360, 60  # of the axes
SIZE, LEFT, TOP = 360, 60, 15  # pixels of the axes, and around them


def x(value: float) -> float:
    """Return the place of a true number in the picture."""
    return round(LEFT + value / LARGEST * SIZE, 1)


def y(value: float) -> float:
    """Return the place of a predicted number."""
    return round(TOP + SIZE - value / LARGEST * SIZE, 1)


def axes() -> list[str]:
    """Return frame, numbers and names of the axes, and the line on which a prediction is right."""
    texts = []
    for value in range(0, LARGEST + 1, STEP):
        texts.append(f'<text x="{x(value)}" y="{y(0) + 18}" text-anchor="middle">{value}</text>')
        texts.append(f'<text x="{x(0) - 8}" y="{y(value) + 4}" text-anchor="end">{value}</text>')
    texts.append(f'<text x="{x(LARGEST / 2)}" y="{y(0) + 38}" text-anchor="middle">true</text>')
    turned = f'transform="translate(16 {y(LARGEST / 2)}) rotate(-90)"'
    texts.append(f'<text {turned} text-anchor="middle">predicted</text>')
    frame = f"M{x(0)} {y(LARGEST)}V{y(0)}H{x(LARGEST)}M{x(0)} {y(0)}L{x(LARGEST)} {y(LARGEST)}"
    return [f'<path fill="none" stroke="#909090" d="{frame}"/>', *texts]


def main(predicted: Path, picture: Path) -> None:
    """Write the picture; `predicted` has the targets (`--predict.include_targets True`)."""
    samples = [json.loads(text) for text in predicted.read_text(encoding="utf-8").splitlines()]
    points = [(sample["targets"][TARGET][0], sample["outputs"][TARGET][0]) for sample in samples]
    dots = [f'<circle cx="{x(true)}" cy="{y(found)}" r="4"/>' for true, found in points]
    size = f'width="{LEFT + SIZE + 20}" height="{TOP + SIZE + 50}" font-family="sans-serif" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}><rect width="100%" height="100%" fill="white"/>'
    group = ['<g fill="#1b6f9c" fill-opacity="0.7">', *dots, "</g>"]
    picture.write_text("\n".join([head, *axes(), *group, "</svg>\n"]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
