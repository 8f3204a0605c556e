"""Write lines of Python's standard library with the kind of each word: `python make_code.py code`."""

import io
import keyword
import re
import sys
import sysconfig
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from text.scenario import normalised, words_of

NAMES = {tokenize.COMMENT: "comment", tokenize.STRING: "string", tokenize.NUMBER: "number", tokenize.OP: "operator"}


def kind_of(tokens: list[tokenize.TokenInfo], index: int) -> str | None:
    """Return the tag of a token; None for the end of a line and the like."""
    token = tokens[index]
    if token.type != tokenize.NAME:
        return NAMES.get(token.type)
    if keyword.iskeyword(token.string):
        return "keyword"
    if tokens[index + 1].string == "(":
        return "function"
    return "attribute" if index and tokens[index - 1].string == "." else "name"


def tagged_lines(source: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield words and tags of the lines in which no token begins before them or ends after them."""
    kinds: dict[int, dict[int, str]] = {}
    broken = set()
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    for index, token in enumerate(tokens):
        (row, begin), (last, end) = token.start, token.end
        kind = kind_of(tokens, index)
        if row != last:
            broken.update(range(row, last + 1))
        elif kind is not None:
            kinds.setdefault(row, {}).update(dict.fromkeys(range(begin, end), kind))
    lines = source.split("\n")
    for row in sorted(kinds.keys() - broken):
        found = words_of(lines[row - 1])
        yield [word for word, _ in found], [kinds[row].get(place, "operator") for _, place in found]


def chosen(lines: list[tuple[list[str], list[str]]], number: int) -> list[tuple[list[str], list[str]]]:
    """Return some of the lines, the same in each run."""
    return [lines[index] for index in np.random.default_rng(1).permutation(len(lines))[:number]]


def write(path: Path, lines: list[tuple[list[str], list[str]]]) -> None:
    path.write_text("".join(f"{' '.join(words)}\t{' '.join(tags)}\n" for words, tags in lines), encoding="utf-8")


def main(directory: Path) -> None:
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    parts: list[list[tuple[list[str], list[str]]]] = [[], []]
    for number, file in enumerate(files):
        source = file.read_text(encoding="utf-8").expandtabs()
        if re.search(r"[^\x00-\x7f]", source) is None:
            parts[number % 5 == 0].extend(tagged_lines(source))
    train, val = chosen(parts[0], 5000), chosen(parts[1], 1000)
    words = Counter(normalised(word) for line, _ in train for word in line)
    directory.mkdir(parents=True, exist_ok=True)
    write(directory / "train.txt", train)
    write(directory / "val.txt", val)
    (directory / "words.txt").write_text("".join(f"{word}\n" for word, _ in words.most_common(2000)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
