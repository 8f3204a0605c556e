"""Draw predicted images, wrong ones in red: `python picture.py runs/images predicted.jsonl images.svg`."""

import base64
import json
import sys
from html import escape
from io import BytesIO
from itertools import islice
from pathlib import Path

import numpy as np
from PIL import Image

COLUMNS, ROWS, SIZE, CELL = 10, 6, 56, 74  # the last two in pixels: of an image, and from one to the next


def png(pixels: np.ndarray) -> str:
    """Return an image of numbers from 0 to 1 as an address of a PNG image."""
    buffer = BytesIO()
    Image.fromarray((255 * pixels.clip(0, 1)).astype("uint8")).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def cell(number: int, sample: dict, classes: list[str]) -> str:
    """Return an image, its most probable class, and the probability of that."""
    row, column = divmod(number, COLUMNS)
    x, y = 10 + column * CELL, 10 + row * (CELL + 8)
    prob = np.array(sample["outputs"]["prob"])
    found, truth = classes[prob.argmax()], Path(sample["meta"]).parent.name
    color = "#202020" if found == truth else "#c0341d"
    place = f'x="{x}" y="{y}" width="{SIZE}" height="{SIZE}" image-rendering="pixelated"'
    text = f'<text x="{x}" y="{y + SIZE + 15}" fill="{color}">{escape(found)} {prob.max():.0%}</text>'
    return f'<image {place} href="{png(np.array(sample["inputs"]["image"])[..., 0])}"/>{text}'


def main(run: Path, predicted: Path, picture: Path) -> None:
    """Write the picture; `predicted` has the inputs (`--dump_inputs`)."""
    classes = json.loads((run / "best" / "scenario_params.json").read_text(encoding="utf-8"))["data"]["classes"]
    with open(predicted, encoding="utf-8") as file:
        cells = [cell(number, json.loads(text), classes) for number, text in enumerate(islice(file, COLUMNS * ROWS))]
    size = f'width="{10 + COLUMNS * CELL}" height="{10 + ROWS * (CELL + 8)}"'
    style = 'font-family="monospace" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>'
    picture.write_text("\n".join([head, *cells, "</svg>\n"]), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
