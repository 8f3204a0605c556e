"""Params and the options of dataclasses_json; dataclasses of the two libraries in a tree."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import paiargparse
import pytest
from dataclasses_json import Undefined, dataclass_json

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_dataclass
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import limits
from tfaip.params.settings import prepare, require_readable, set_flags


@pai_dataclass
@dataclass
class DatedParams(ParamsBase):
    day: str = "monday"
    plain: int = field(default=1, metadata=limits(low=0))


@paiargparse.pai_dataclass(alt="L")
@dataclass
class LibraryParams:
    """Declared with the two libraries alone."""

    x: int = field(default=1, metadata=paiargparse.pai_meta(help="Number", mode="snake"))
    child: DatedParams = field(default_factory=DatedParams)


@paiargparse.pai_dataclass
@dataclass
class SubLibraryParams(LibraryParams):
    y: str = "a"


@dataclass_json(undefined=Undefined.EXCLUDE)
@dataclass
class JsonParams:
    first_value: int = 1
    other: float = 0.5


@pai_dataclass
@dataclass
class TreeParams(ParamsBase):
    library: LibraryParams = field(default_factory=LibraryParams)
    json_: JsonParams = field(default_factory=JsonParams)
    items: list[LibraryParams] = field(default_factory=list)


def test_classes_of_the_libraries_are_nodes_like_any_other() -> None:
    tree = TreeParams(library=SubLibraryParams(y="b"), items=[LibraryParams(x=2)])
    encoded = json.loads(tree.to_json())
    assert encoded["json_"] == {"__cls__": "test.params.test_jsonoptions:JsonParams", "first_value": 1, "other": 0.5}
    assert encoded["library"]["__cls__"] == "test.params.test_jsonoptions:SubLibraryParams"
    assert TreeParams.from_dict(encoded) == tree
    with pytest.raises(UsageError, match=r"has no 'frist'; expected one of"):  # whatever `undefined` says
        TreeParams.from_dict({"json_": {"frist": 2}})
    encoded["items"][0]["__cls__"] = "subprocess:Popen"
    with pytest.raises(UsageError, match="refused"):
        TreeParams.from_dict(encoded)
    prepare(tree, "p")
    require_readable(tree, TreeParams, "p")


def test_classes_of_the_libraries_have_flags(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ParamsParser("x")
    parser.add_params("p", TreeParams)
    line = "--p.library SubLibrary --p.library.y b --p.json_.first_value 3 --p.items L L"
    parsed: Any = parser.parse([*line.split(), "--p.items.1.child.day", "friday"]).p
    assert parsed.library == SubLibraryParams(y="b")
    assert parsed.json_ == JsonParams(first_value=3)
    assert parsed.items == [LibraryParams(), LibraryParams(child=DatedParams(day="friday"))]
    with pytest.raises(SystemExit):
        parser.parse(["--help", "library"])
    assert "  --p.library.x int = 1\n      Number.\n" in capsys.readouterr().out
    set_flags(parsed, {"library.x": "7"})
    assert parsed.library.x == 7
