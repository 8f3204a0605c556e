"""A params file cannot make us import, let alone run, what nobody trusts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tfaip.errors import UsageError
from tfaip.params import ParamsBase
from tfaip.params.stored import from_dict
from tfaip.params.trust import OwnPackage, UntrustedName


class Part(ParamsBase):
    x: int = 1


class OtherPart(ParamsBase):
    y: int = 1


class Whole(ParamsBase):
    part: Part = field(default_factory=Part)
    anything: Any = None


# Not a class of ours, and found under a name of this module.
alias = subprocess.Popen

EVIL = """
from dataclasses import dataclass
from pathlib import Path
from test.params.test_trust import Part
Path({marker!r}).write_text("imported")

@dataclass
class Evil(Part):
    def __post_init__(self):
        Path({marker!r}).write_text("built")
"""


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that appears when the package `evil_package` is imported."""
    path = tmp_path / "marker"
    (tmp_path / "evil_package.py").write_text(EVIL.format(marker=str(path)))
    monkeypatch.syspath_prepend(tmp_path)
    yield path
    sys.modules.pop("evil_package", None)


def test_refused_before_anything_is_imported(marker: Path, subtests: pytest.Subtests) -> None:
    for key in ["part", "anything"]:
        for name in [
            "os:system",
            "subprocess:Popen",
            "builtins:eval",
            "evil_package:Evil",
            "evil_package.sub:Evil",
            "evil_package:Evil.x",
            "evil_package:Evil:x",
            "evil_package",
            "evil_package:",
            ":Evil",
            "",
            "test.params.test_trust:Part\n",
            "../evil_package:Evil",
            ".evil_package:Evil",
            "tfaip_evil:X",
            "tést.params.test_trust:Part",
            3,
            None,
            ["evil_package:Evil"],
            {"module": "evil_package"},
        ]:
            with subtests.test(key=key, name=name):
                known = set(sys.modules)
                with pytest.raises(UsageError, match="__cls__"):
                    from_dict(Whole, {key: {"__cls__": name}})
                assert set(sys.modules) == known
                assert not marker.exists()


def test_the_root_is_checked_as_well(marker: Path) -> None:
    with pytest.raises(UsageError, match="evil_package is not among the trusted packages"):
        from_dict(Part, {"__cls__": "evil_package:Evil"})
    assert not marker.exists()


def test_a_trusted_package_is_imported(marker: Path) -> None:
    part = from_dict(Whole, {"part": {"__cls__": "evil_package:Evil", "x": 4}}, trusted=["evil_package"]).part
    assert (type(part).__name__, part.x) == ("Evil", 4)
    assert marker.read_text() == "built"


def test_trust_is_for_whole_names(marker: Path) -> None:
    with pytest.raises(UsageError, match="refused"):
        from_dict(Whole, {"part": {"__cls__": "evil_package:Evil"}}, trusted=["evil"])
    with pytest.raises(TypeError, match=r"expected a list of packages: \['evil_package'\]"):
        from_dict(Whole, {}, trusted="evil_package")
    assert not marker.exists()


def test_allowed_modules_do_not_make_everything_allowed(subtests: pytest.Subtests) -> None:
    for name, message in [
        ("test.params.test_trust:alias", "is not a params class derived from Part"),
        ("test.params.test_trust:EVIL", "is not a params class derived from Part"),
        ("test.params.test_trust:OtherPart", "is not a params class derived from Part"),
        ("test.params.test_trust:Missing", "has no class 'Missing'"),
        (
            "test.params.no_such_module:X",
            "'test.params.no_such_module'): put the directory that holds it on the PYTHONPATH",
        ),
        ("tfaip.params.tree:Change", "is not a params class derived from Part"),
    ]:
        with subtests.test(name=name):
            with pytest.raises(UsageError) as error:
                from_dict(Whole, {"part": {"__cls__": name}})
            assert message in str(error.value)
            assert str(error.value).startswith("params.part: ")


def test_an_alias_of_a_class_from_elsewhere_is_refused(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import evil_package  # type: ignore[import-not-found]

    marker.unlink()
    monkeypatch.setattr(sys.modules[__name__], "Harmless", evil_package.Evil, raising=False)
    with pytest.raises(UsageError, match="defined in evil_package, is refused"):
        from_dict(Whole, {"part": {"__cls__": f"{__name__}:Harmless"}})
    assert not marker.exists()


def test_from_dict_of_classes_with_the_decorator_of_paiargparse_is_safe(marker: Path) -> None:
    import paiargparse

    @paiargparse.pai_dataclass
    @dataclass
    class Fresh(Part):
        pass

    with pytest.raises(UsageError, match="evil_package"):
        Fresh.from_dict({"__cls__": "evil_package:Evil"})
    assert not marker.exists()


@dataclass
class Job:
    """No params: whatever it does when it is made must not be asked for by a file."""

    command: str = ""

    def __post_init__(self) -> None:
        raise AssertionError(f"made with {self.command}")


class AnyParams(ParamsBase):
    anything: Any = None


def test_a_field_of_any_type_takes_params_only_from_the_own_package() -> None:
    job = {"__cls__": f"{__name__}:Job", "command": "rm"}
    for values in ({"anything": job}, {"anything": {"x": [job]}}):
        with pytest.raises(UntrustedName, match="Job.* is refused: a file may name it only if it is marked"):
            from_dict(AnyParams, values, trusted=[OwnPackage("test")])
    made = from_dict(AnyParams, {"anything": {"__cls__": f"{__name__}:AnyParams"}}, trusted=[OwnPackage("test")])
    assert made.anything == AnyParams()
