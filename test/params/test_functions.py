"""Functions that params name: what they may be, and that files import no foreign ones; names of RETURNN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras
import pytest

from test.params.tiny_flags import tiny_params
from tfaip.errors import UsageError
from tfaip.params import nameable
from tfaip.params.names import RETURNN_OPTIONS
from tfaip.params.trust import OwnPackage, UntrustedName, is_made_for_params, is_nameable
from tfaip.params.types import FunctionByName, load_function
from tfaip.trainer.scheduler import NewbobMultiEpochParams, NewbobRelParams

NEWBOB = "learning_rate: NewbobRel\nlearning_rate.decay: {}\n"
CHOSEN = ("--learning_rate", "NewbobRel", "--learning_rate.decay")


def configured(directory: Path, text: str) -> Any:
    (directory / "config.yaml").write_text(text)
    return tiny_params("--config", str(directory / "config.yaml")).learning_rate


def stored(name: str, trusted: list[str]) -> Any:
    return NewbobRelParams.from_dict({**NewbobRelParams().to_dict(), "decay": name}, trusted=trusted).decay


def test_a_foreign_function_in_a_file_is_refused_before_its_import(foreign: Path) -> None:
    with pytest.raises(UsageError, match=r"'foreign:halve' is refused: foreign .*; if you know the file, trust it"):
        configured(foreign, NEWBOB.format("foreign:halve"))
    with pytest.raises(UsageError, match="'foreign:halve' is refused: foreign is not among the trusted"):
        stored("foreign:halve", [])
    # The user may name any; it is imported by the training.
    assert tiny_params(*CHOSEN, "foreign:halve").learning_rate.decay == "foreign:halve"
    assert not (foreign / "marker").exists()
    assert stored("foreign:halve", ["foreign"]) == "foreign:halve"
    assert (foreign / "marker").exists()


def halve(rate: float) -> float:
    return rate / 2


@nameable
def third(rate: float) -> float:
    return rate / 3


class Tell(keras.callbacks.Callback):
    """Derived from a class of Keras, which no function is."""


MARKED, UNMARKED = f"{__name__}:third", f"{__name__}:halve"


@pytest.mark.parametrize(
    ("name", "trusted", "message"),
    [
        ("os:system", ["test"], "'os:system' is refused: os is not among the trusted packages"),
        ("tfaip.util.files:remove_tree", ["test"], "remove_tree' is refused: tfaip is not among the trusted"),
        ("test.params.tiny_flags:dumps", ["test"], "has no function 'dumps'"),
        ("test.params.test_functions:Path", ["test"], r"defined in pathlib(\._local)?, is refused"),
        ("test.no_such_module:f", ["test"], "cannot be imported"),
        # Of a package whose code runs, a file names what is marked; classes of params are made, not called.
        (UNMARKED, [OwnPackage("test")], "is refused"),
        (f"{__name__}:NewbobRelParams", [OwnPackage("test")], "is refused"),
        ("runnable.__main__:f", [OwnPackage("runnable")], "to import it would run the program runnable"),
        ("runnable.__main__.other:f", [OwnPackage("runnable")], "to import it would run the program runnable"),
    ],
)
def test_functions_that_a_file_must_not_name(
    name: str, trusted: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runnable").mkdir()
    (tmp_path / "runnable" / "__init__.py").touch()
    (tmp_path / "runnable" / "__main__.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UntrustedName if "is refused" in message else UsageError, match=message):
        stored(name, trusted)
    assert not (tmp_path / "marker").exists()


def test_of_a_package_whose_code_runs_a_file_names_only_what_is_marked(tmp_path: Path) -> None:
    assert configured(tmp_path, NEWBOB.format(MARKED)).decay == MARKED
    expected = (
        f"config.yaml: learning_rate.decay: function {UNMARKED!r} is refused: a file may name it only if it is marked "
        "with tfaip.params.nameable; if you know the file, trust it: --trust test"
    )
    with pytest.raises(UsageError) as error:
        configured(tmp_path, NEWBOB.format(UNMARKED))
    assert str(error.value).endswith(expected)
    assert stored(UNMARKED, [OwnPackage("test"), "test"]) == UNMARKED


def test_a_class_has_no_mark_of_its_base() -> None:
    class Marked:
        pass

    class Derived(Marked):
        pass

    nameable(Marked)
    assert (is_nameable(Marked), is_nameable(Derived)) == (True, False)
    kinds = (Marked, Derived, third, halve, Tell, NewbobRelParams, Path, 3)
    assert [is_made_for_params(kind) for kind in kinds] == [True, False, True, False, True, True, False, False]


def test_texts_of_overrides_name_only_what_is_marked(tmp_path: Path) -> None:
    def stage(override: dict[str, Any]) -> Any:
        train = {"__cls__": "Train", "epochs": 1, "overrides": override}
        (tmp_path / "config.json").write_text(json.dumps({"stages": {"a": train}}))
        return tiny_params("--config", str(tmp_path / "config.json")).stages["a"]

    name = {"learning_rate": "NewbobRel"}
    hidden = "\"o's:sys'tem\""  # as a shell joins it
    for refused in ("tfaip.util.files:write_text", "tfaip.components.loading:load_scenario", UNMARKED, hidden):
        with pytest.raises(UsageError, match="is refused: (a file may name it only if|(tfaip|os) is not among)"):
            stage({**name, "learning_rate.decay": refused})
    marked = {**name, "learning_rate.decay": MARKED}
    assert stage(marked).overrides == marked
    stage({"learning_rate": "tfaip.trainer.scheduler:NewbobRelParams", "callbacks": f"{__name__}:Tell"})


def both(a: int, b: int = 2, *rest: int) -> tuple[int, int]:
    return a, b


def all_of_them(**offered: int) -> dict[str, int]:
    return offered


def test_loading_and_arguments_by_name() -> None:
    assert load_function("math:sqrt", "--f")(4) == 2
    for name, message in [("math", "expected module:function"), ("math:pi", "a function that"), ("math:a.b", "expect")]:
        with pytest.raises(UsageError, match=f"^decay is '{name}', .*{message}"):
            load_function(name, "decay")
    assert FunctionByName(f"{__name__}:both", ["a", "c"], "--f")(a=1, c=3) == (1, 2)
    assert FunctionByName(f"{__name__}:both", ["a", "b"], "--f")(a=1, b=3) == (1, 3)
    assert FunctionByName(f"{__name__}:all_of_them", ["a", "b"], "--f")(a=1, b=3) == {"a": 1, "b": 3}
    with pytest.raises(UsageError, match="^f is .*both', expected a function of b, c; it needs 'a'$"):
        FunctionByName(f"{__name__}:both", ["b", "c"], "f")
    with pytest.raises(UsageError, match="^f is .*Error', expected a function whose arguments are known: wrap it$"):
        FunctionByName("tfaip.errors:UsageError", ["lr"], "f")


@pytest.mark.parametrize(
    ("flag", "here"),
    [
        ("--learning_rate.newbob_multi_num_epochs", "--learning_rate.window_epochs"),
        ("--pretrain.construction_algo", "--stages"),
        ("--default_learning_rates", "--learning_rate.rates"),
    ],
)
def test_names_of_returnn_are_answered_with_ours(flag: str, here: str) -> None:
    with pytest.raises(UsageError, match=rf"unknown flag {flag}; did you mean {here}\?"):
        tiny_params("--learning_rate", "NewbobMultiEpoch", flag, "1")


def test_names_of_returnn_as_attributes_and_keys() -> None:
    params = NewbobMultiEpochParams()
    with pytest.raises(AttributeError, match="relative_error_div_by_old does not exist; did you mean divide_by?"):
        params.relative_error_div_by_old = True
    with pytest.raises(UsageError, match="has no 'learning_rates'; did you mean rates?"):
        NewbobMultiEpochParams.from_dict({"learning_rates": [0.1]})


def test_the_names_here_exist() -> None:
    for flag in sorted(set(RETURNN_OPTIONS.values()) - {"learning_rate", "learning_rate.modulation"}):
        complaint = ""
        try:
            tiny_params("--learning_rate", "NewbobMultiEpoch", f"--{flag}=1")
        except UsageError as error:  # whatever else may be wrong with this value
            complaint = str(error)
        assert "unknown" not in complaint, flag
