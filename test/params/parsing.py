"""Command lines of `RunParams`, parsed."""

from __future__ import annotations

from typing import Any

import pytest

from test.params.cli_params import (
    RunParams,
)
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser


def make_parser(default: RunParams | None = None) -> ParamsParser:
    parser = ParamsParser("tfaip-test", "Tests flags.")
    parser.add_option("--dry_run", help="Do nothing")
    parser.add_option("--limit", type=int, default=3)
    parser.add_option("--dirs", type=list[str])
    parser.add_params("run", RunParams, default=default)
    return parser


def parse(line: str, default: RunParams | None = None) -> Any:
    return make_parser(default).parse(["--run.output_dir", "out", *line.split()]).run


def failure(line: str, default: RunParams | None = None) -> str:
    with pytest.raises(UsageError) as error:
        parse(line, default)
    assert "\n" not in str(error.value)
    return str(error.value)
