"""Draw predicted lines in colors, wrong words underlined: `python picture.py predicted.jsonl lines.svg`."""

import json
import sys
from html import escape
from itertools import zip_longest
from pathlib import Path

COLORS = dict(
    zip(
        ["attribute", "comment", "function", "keyword", "name", "number", "operator", "string"],
        ["#1b6f9c", "#7a7a7a", "#8250c8", "#c0341d", "#202020", "#0a7d55", "#202020", "#a86400"],
        strict=True,
    )
)
LINES, LONGEST, HEIGHT, WIDTH = 24, 90, 20, 8  # the last two in pixels


def line(number: int, words: list[str], found: list[str], truth: list[str]) -> str:
    """Return a line of text in colors."""
    spans = []
    for word, tag, right in zip_longest(words, found, truth):
        wrong = ' text-decoration="underline"' if right not in (None, tag) else ""
        spans.append(f'<tspan fill="{COLORS.get(tag, "#202020")}"{wrong}>{escape(word)}</tspan>')
    return f'<text x="10" y="{(number + 1) * HEIGHT}">{" ".join(spans)}</text>'


def main(predicted: Path, picture: Path) -> None:
    """Write the picture."""
    samples = [json.loads(text) for text in predicted.read_text(encoding="utf-8").splitlines()]
    short = [sample for sample in samples if len(" ".join(sample["meta"]["words"])) <= LONGEST][:LINES]
    lines = [
        line(number, sample["meta"]["words"], sample["outputs"]["tags"], sample["meta"]["tags"])
        for number, sample in enumerate(short)
    ]
    size = f'width="{LONGEST * WIDTH + 20}" height="{(len(lines) + 1) * HEIGHT}"'
    style = 'font-family="monospace" font-size="13"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}><rect width="100%" height="100%" fill="white"/>'
    picture.write_text("\n".join([head, *lines, "</svg>\n"]), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
