"""Draw predicted lines with their texts, wrong ones in red: `python picture.py predicted.jsonl lines.svg`."""

import base64
import json
import sys
from html import escape
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

LINES, WRONG = 10, 4  # of any kind, and at most of wrong ones
SCALE, LEFT, GAP = 4, 12, 12  # in pixels; SCALE: of a pixel of the lines


def png(pixels: np.ndarray) -> str:
    """Return an image of numbers from 0 to 1 as an address of a PNG image."""
    buffer = BytesIO()
    Image.fromarray((255 - 255 * pixels.clip(0, 1)).astype("uint8")).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def columns_of(sample: dict) -> np.ndarray:
    """Return the columns of a line, without the padding of its batch."""
    return np.array(sample["inputs"]["img"])[: sample["inputs"]["img_len"][0]]


def line(sample: dict, y: int, text_x: int) -> str:
    """Return an image of a line, and the text that was read."""
    pixels = columns_of(sample).T
    height, width = (SCALE * size for size in pixels.shape)
    truth, text = sample["meta"]["text"], sample["outputs"]["text"]
    shown = escape(text if text == truth else f"{text} (right: {truth})")
    color = "#202020" if text == truth else "#c0341d"
    place = f'x="{LEFT}" y="{y}" width="{width}" height="{height}" image-rendering="pixelated"'
    label = f'<text x="{text_x}" y="{y + height / 2 + 5:.0f}" fill="{color}">{shown}</text>'
    return f'<image {place} href="{png(pixels)}"/>{label}'


def chosen(samples: list[dict]) -> list[dict]:
    """Return some samples of all lengths, and then some that are wrong."""
    wrong = [sample for sample in samples if sample["outputs"]["text"] != sample["meta"]["text"]]
    return samples[:: max(len(samples) // LINES, 1)][:LINES] + wrong[:WRONG]


def main(predicted: Path, picture: Path) -> None:
    """Write the picture; `predicted` has the inputs (`--dump_inputs`)."""
    samples = chosen([json.loads(text) for text in predicted.read_text(encoding="utf-8").splitlines()])
    columns, rows = np.array([columns_of(sample).shape for sample in samples]).max(axis=0)
    text_x, step = 2 * LEFT + SCALE * int(columns), SCALE * int(rows) + GAP
    lines = [line(sample, GAP + number * step, text_x) for number, sample in enumerate(samples)]
    size = f'width="{text_x + 240}" height="{GAP + len(samples) * step}"'
    style = 'font-family="monospace" font-size="15"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>'
    picture.write_text("\n".join([head, *lines, "</svg>\n"]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
