"""Odd values for flags: what people mistype, what scripts leave empty, and what attackers try."""

from __future__ import annotations

import json

_NUMBERS = [
    "-1",
    "0",
    "1",
    "2",
    "3.7",
    "-0.0",
    "1e-320",
    "1e400",
    "nan",
    "inf",
    "-inf",
    "1_000",
    "0x10",
    "1,5",
    "٣",
    str(2**31),
    str(2**63),
    str(-(2**63)),
    "1" + "0" * 400,
    "9" * 5000,
]
_NAMES_OF_NOTHING = ["", "   ", "None", "null", "True", "no", "[]", "{}"]
_PATHS = ["..", "../x", "/", "/dev/zero", "/dev/null", "a/b", "./", "~", "tiny", ".tmp-x", "export", "name\0nul"]
_TEXTS = [
    "x" * 300,
    "y" * 5000,
    "z/" * 2000,
    "größe-日本語",
    "🦆",
    "a\tb\nc\r\x07",
    "\x1b[31mred\x1b[0m",
    "\u202egnp.exe",
    "\udcff",
    "{epoch}",
    "{",
    "{0.__class__}",
    "%s%n",
    "a=b",
    "=",
    "=1",
    "a=1e400",
    "@file",
    "$HOME",
    "`id`",
    "a: [1, b: *x",
    "!!python/object/apply:os.system [id]",
]
_CODE = [
    "os:system",
    "subprocess:run",
    "__main__:x",
    "builtins:eval",
    "tfaip.errors:UsageError",
    "nowhere.at.all:f",
    ":",
]
_PATTERNS = ["(", "[[", "[[a]", "(a+)+$", "(?i", "*", ".*", "\\"]
_JSON = [
    "[" * 3000,
    "[" * 2000 + "]" * 2000,
    json.dumps({"a": [{"b": None}]}),
    "[1, 2",
    "[1e400, null]",
    '{"__cls__": "os:system"}',
]
_DASHES = ["-", "--", "---", "-x", "--trainer.epochs", "--=", "-1e5"]

WORDS = [*_NUMBERS, *_NAMES_OF_NOTHING, *_PATHS, *_TEXTS, *_CODE, *_PATTERNS, *_JSON, *_DASHES]
# Several words after a flag, and none.
SEVERAL = [
    [],
    ["1", "2", "3"],
    ["1", "1"],
    ["a", "a"],
    ["a=1", "a=2"],
    ["0=1", "1=nan"],
    ["", ""],
    ["1"] * 500,
    ["-1", "nan", "x"],
]

# Where a flag is expected.
FLAGS = [
    "--",
    "--=",
    "--=1",
    "--.",
    "--trainer",
    "--trainer.",
    "--trainer..epochs",
    "--trainer.epochs.x",
    "--trainer.epoch",
    "--trainer.__class__",
    "--trainer.__dict__",
    "--optimizer.__cls__",
    "--__cls__",
    "--Trainer.epochs",
    "--trainer.epochs\0",
    "--größe",
    "--" + "x" * 5000,
    "--" + "a." * 3000,
    "--{epoch}",
    "-",
    "-e",
    "--help=x",
    "--print_config=x",
    "--dry_run=x",
    "--config",
    "--trust",
    "\x1b[31m",
    "🦆",
]
