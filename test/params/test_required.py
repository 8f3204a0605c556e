"""Values that must be given: which are missing, and what counts as given."""

from __future__ import annotations

from dataclasses import field

import pytest

from test.params.cli_params import (
    LayerParams,
    RunParams,
)
from test.params.parsing import make_parser
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_meta
from tfaip.params.commandline import ParamsParser


class NeedsParams(ParamsBase):
    a: int
    items: list[LayerParams] = field(default_factory=list)
    b: str = field(default="x", metadata=pai_meta(required=True))


class NeedsItemsParams(ParamsBase):
    child: NeedsParams


def test_missing_required_values_are_listed() -> None:
    parser = ParamsParser("x")
    parser.add_params("p", NeedsItemsParams)
    with pytest.raises(UsageError, match="^missing required flags: --p.child.a, --p.child.b$"):
        parser.parse([])
    with pytest.raises(UsageError, match="^missing required flag: --p.child.b$"):
        parser.parse(["--p.child.a", "1"])
    assert parser.parse(["--p.child.a", "1", "--p.child.b", "y"]).p.child == NeedsParams(1, b="y")
    parser = ParamsParser("x")
    parser.add_params("p", NeedsParams, default=NeedsParams(4))
    assert parser.parse([]).p == NeedsParams(4)


def test_a_required_value_cannot_be_none() -> None:
    with pytest.raises(UsageError, match="^missing required flag: --run.output_dir$"):
        make_parser().parse(["--run.output_dir", "None"])
    with pytest.raises(UsageError, match="^missing required flag: --run.output_dir$"):
        make_parser(RunParams()).parse([])


class PromptedParams(ParamsBase):
    """Fields that must be given hold an empty value until then."""

    text: str = field(default="", metadata=pai_meta(required=True, help="What to say"))
    words: list[str] = field(default_factory=list, metadata=pai_meta(required=True))


@pytest.mark.parametrize("default", [None, PromptedParams()])
def test_required_fields_whose_default_is_empty_are_asked_for(
    default: PromptedParams | None, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = ParamsParser("x")
    parser.add_params("p", PromptedParams, default=default)
    with pytest.raises(UsageError, match=r"^missing required flags: --p\.text, --p\.words$"):
        parser.parse([])
    with pytest.raises(UsageError, match=r"^missing required flag: --p\.text$"):
        parser.parse(["--p.text", "", "--p.words", "a"])
    assert parser.parse(["--p.text", "t", "--p.words", "a"]).p == PromptedParams("t", ["a"])
    with pytest.raises(SystemExit):
        parser.parse(["--help"])
    text = capsys.readouterr().out
    assert "  --p.text str (required)\n      What to say.\n" in text
    assert "  --p.words list[str] (required)\n" in text
