"""Params and the options of dataclasses_json; dataclasses of the two libraries in a tree."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import paiargparse
import pytest
from dataclasses_json import LetterCase, Undefined, config, dataclass_json
from marshmallow import ValidationError

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option, pai_dataclass, pai_meta
from tfaip.params.commandline.parser import ParamsParser
from tfaip.params.limits import limits
from tfaip.params.settings import set_flags
from tfaip.params.storable import conform, prepare, require_readable
from tfaip.params.stored import from_dict, load_params, save_params


@pai_dataclass
@dataclass
class DatedParams(ParamsBase):
    """Options with their own form in JSON."""

    day: date = field(
        default=date(2020, 1, 2), metadata=config(encoder=date.isoformat, decoder=date.fromisoformat, field_name="on")
    )
    private: str = field(default="", metadata=config(exclude=lambda value: True))
    note: str | None = field(default=None, metadata=pai_meta(help="Text") | config(exclude=lambda value: value is None))
    learning_rate: float = field(default=0.5, metadata=config(letter_case=LetterCase.CAMEL))
    plain: int = field(default=1, metadata=limits(low=0))


@pai_dataclass
@dataclass
class HolderParams(ParamsBase):
    one: DatedParams = field(default_factory=DatedParams, metadata=config(field_name="first"))
    more: list[DatedParams] = field(default_factory=list)
    named: dict[str, DatedParams] = field(default_factory=dict)


CLASS = "test.params.test_jsonoptions:DatedParams"


def test_names_encoders_and_exclusions_hold_in_json(tmp_path: Path) -> None:
    params = DatedParams(day=date(2021, 3, 4), private="x", note="n", learning_rate=0.25)
    encoded = params.to_dict()
    assert encoded == {"__cls__": CLASS, "on": "2021-03-04", "note": "n", "learningRate": 0.25, "plain": 1}
    assert "note" not in DatedParams().to_dict()
    expected = DatedParams(day=date(2021, 3, 4), note="n", learning_rate=0.25)
    assert DatedParams.from_dict(encoded) == expected
    assert DatedParams.from_json(params.to_json()) == expected
    holder = HolderParams(one=params, more=[params], named={"a": params})
    assert list(holder.to_dict()) == ["__cls__", "first", "more", "named"]
    save_params(tmp_path / "p.json", holder)
    loaded = load_params(tmp_path / "p.json", HolderParams)
    assert loaded == HolderParams(one=expected, more=[expected], named={"a": expected})
    # As files of before the options.
    assert from_dict(DatedParams, {"learning_rate": 2, "day": "2020-05-06"}).day == date(2020, 5, 6)


def test_what_is_excluded_is_no_loss_and_everything_else_is() -> None:
    params = HolderParams(one=DatedParams(private="x"))
    prepare(params, "run")
    require_readable(params, HolderParams, "run")
    conform(params, "run")
    assert params.one.private == "x"
    params.one.day = "no day"  # type: ignore[assignment]
    with pytest.raises((UsageError, TypeError)):
        require_readable(params, HolderParams, "run")


def test_errors_name_the_place() -> None:
    with pytest.raises(UsageError, match=r"^params\.first\.on: its decoder refuses the value: ValueError"):
        HolderParams.from_dict({"first": {"on": "yesterday"}})
    with pytest.raises(UsageError, match=r"^params: DatedParams has no 'onn'; did you mean on"):
        DatedParams.from_dict({"onn": 1})

    with pytest.raises(TypeError, match=r"^params\.one\.day: its encoder refuses the value: TypeError"):
        HolderParams(one=DatedParams(day="no day")).to_dict()  # type: ignore[arg-type]

    @dataclass
    class TwiceParams(ParamsBase):
        a: int = field(default=1, metadata=config(field_name="b"))
        b: int = 2

    TwiceParams.__qualname__ = "TwiceParams"
    with pytest.raises(TypeError, match=r"params\.b is stored as 'b'|params\.a is stored as 'b'"):
        TwiceParams().to_dict()


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


def test_the_schema_dumps_and_loads_as_params_do() -> None:
    schema = HolderParams.schema()
    params = HolderParams(one=DatedParams(note="n"))
    assert schema.dump(params) == params.to_dict()
    assert schema.load(params.to_dict()) == params
    assert schema.loads(schema.dumps(params)) == params
    assert HolderParams.schema(many=True).dump([params]) == [params.to_dict()]
    with pytest.raises(ValidationError, match=r"plain.*expected at least 0"):
        schema.load({"first": {"plain": -1}})
    with pytest.raises(ValidationError, match="Unknown field"):
        schema.load({"second": 1})
    with pytest.raises(ValidationError, match="refused"):
        schema.load({"first": {"__cls__": "subprocess:Popen"}})
    descriptions = {
        name: one.metadata["description"] for name, one in DescribedParams.schema().fields.items() if one.metadata
    }
    assert descriptions == {"note": "Text", "count": "How often", "plain": ""}


class DescribedParams(ParamsBase):
    note: str = option("", "Text")
    count: int = 1
    """How often"""
    plain: int = 2


@pytest.mark.parametrize("undefined", [Undefined.EXCLUDE, Undefined.RAISE])
def test_unknown_keys_are_errors_whatever_undefined_says(undefined: Undefined) -> None:
    @dataclass_json(undefined=undefined)
    @dataclass
    class ExcludingParams(ParamsBase):
        first: int = 1

    assert ExcludingParams.from_dict({"first": 2}) == ExcludingParams(2)
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


@dataclass_json(letter_case=LetterCase.CAMEL)
@dataclass
class CamelParams:
    first_value: int = 1
    other: float = 0.5


@pai_dataclass
@dataclass
class TreeParams(ParamsBase):
    library: LibraryParams = field(default_factory=LibraryParams)
    camel: CamelParams = field(default_factory=CamelParams)
    items: list[LibraryParams] = field(default_factory=list)


def test_classes_of_the_libraries_are_nodes_like_any_other() -> None:
    tree = TreeParams(library=SubLibraryParams(y="b"), items=[LibraryParams(x=2)])
    encoded = json.loads(tree.to_json())
    assert encoded["camel"] == {"__cls__": "test.params.test_jsonoptions:CamelParams", "firstValue": 1, "other": 0.5}
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
    line = "--p.library SubLibrary --p.library.y b --p.camel.first_value 3 --p.items L L"
    parsed: Any = parser.parse([*line.split(), "--p.items.1.child.day", "2020-02-02"]).p
    assert parsed.library == SubLibraryParams(y="b")
    assert parsed.camel == CamelParams(first_value=3)
    assert parsed.items == [LibraryParams(), LibraryParams(child=DatedParams(day=date(2020, 2, 2)))]
    with pytest.raises(SystemExit):
        parser.parse(["--help", "library"])
    assert "  --p.library.x int = 1\n      Number.\n" in capsys.readouterr().out
    set_flags(parsed, {"library.x": "7"})
    assert parsed.library.x == 7
