"""Params and the options of dataclasses_json; dataclasses of the two libraries in a tree."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import paiargparse
import pytest
from dataclasses_json import Undefined, config, dataclass_json

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_dataclass
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import limits
from tfaip.params.settings import prepare, require_readable, set_flags
from tfaip.params.stored import load_params, save_params


@pai_dataclass
@dataclass
class DatedParams(ParamsBase):
    """A field with a form of its own in JSON."""

    day: date = field(default=date(2020, 1, 2), metadata=config(encoder=date.isoformat, decoder=date.fromisoformat))
    plain: int = field(default=1, metadata=limits(low=0))


@pai_dataclass
@dataclass
class HolderParams(ParamsBase):
    one: DatedParams = field(default_factory=DatedParams)
    more: list[DatedParams] = field(default_factory=list)


CLASS = "test.params.test_jsonoptions:DatedParams"


def test_encoders_and_decoders_hold_in_json(tmp_path: Path) -> None:
    params = DatedParams(day=date(2021, 3, 4))
    assert params.to_dict() == {"__cls__": CLASS, "day": "2021-03-04", "plain": 1}
    holder = HolderParams(one=params, more=[params])
    assert HolderParams.from_json(holder.to_json()) == holder
    save_params(tmp_path / "p.json", holder)
    assert load_params(tmp_path / "p.json", HolderParams) == holder
    with pytest.raises(UsageError, match=r"^params\.one\.day: its decoder refuses the value: ValueError"):
        HolderParams.from_dict({"one": {"day": "yesterday"}})
    with pytest.raises(TypeError, match=r"^params\.one\.day: its encoder refuses the value: TypeError"):
        HolderParams(one=DatedParams(day="no day")).to_dict()  # type: ignore[arg-type]


def test_flags_and_config_files_use_the_decoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = ParamsParser("x")
    parser.add_params("p", HolderParams)
    (tmp_path / "c.yaml").write_text('p.one.day: "2022-02-02"\n')
    assert parser.parse(["--p.one.day", "2023-03-03"]).p.one.day == date(2023, 3, 3)
    assert parser.parse(["--config", str(tmp_path / "c.yaml")]).p.one.day == date(2022, 2, 2)
    with pytest.raises(UsageError, match=r"^--p\.one\.day: its decoder refuses the value"):
        parser.parse(["--p.one.day", "soon"])
    with pytest.raises(SystemExit):
        parser.parse(["--p.one.day", "2023-03-03", "--print_config"])
    assert 'p.one.day: "2023-03-03"  # command line' in capsys.readouterr().out
    params = HolderParams()
    set_flags(params, {"one.day": "2024-04-04"})
    assert params.one.day == date(2024, 4, 4)


@pytest.mark.parametrize("undefined", [Undefined.EXCLUDE, Undefined.RAISE])
def test_unknown_keys_are_errors_whatever_undefined_says(undefined: Undefined) -> None:
    @dataclass_json(undefined=undefined)
    @dataclass
    class ExcludingParams(ParamsBase):
        first: int = 1

    assert ExcludingParams.from_dict({"first": 2}).first == 2
    with pytest.raises(UsageError, match=r"has no 'frist'; did you mean first"):
        ExcludingParams.from_dict({"frist": 2})


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


@dataclass_json
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
    encoded["items"][0]["__cls__"] = "subprocess:Popen"
    with pytest.raises(UsageError, match="refused"):
        TreeParams.from_dict(encoded)
    prepare(tree, "p")
    require_readable(tree, TreeParams, "p")


def test_classes_of_the_libraries_have_flags(capsys: pytest.CaptureFixture[str]) -> None:
    parser = ParamsParser("x")
    parser.add_params("p", TreeParams)
    line = "--p.library SubLibrary --p.library.y b --p.json_.first_value 3 --p.items L L"
    parsed: Any = parser.parse([*line.split(), "--p.items.1.child.day", "2020-02-02"]).p
    assert parsed.library == SubLibraryParams(y="b")
    assert parsed.json_ == JsonParams(first_value=3)
    assert parsed.items == [LibraryParams(), LibraryParams(child=DatedParams(day=date(2020, 2, 2)))]
    with pytest.raises(SystemExit):
        parser.parse(["--help", "library"])
    assert "  --p.library.x int = 1\n      Number.\n" in capsys.readouterr().out
    set_flags(parsed, {"library.x": "7"})
    assert parsed.library.x == 7
