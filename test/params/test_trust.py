"""Files cannot import or run what nobody trusts, the command line may: classes and functions of params."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import pytest

from test.params.tiny_flags import tiny_params
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, nameable
from tfaip.params.codec import Decoder, Words
from tfaip.params.names import RETURNN_OPTIONS
from tfaip.params.stored import from_dict
from tfaip.params.trust import OwnPackage, UntrustedName, is_made_for_params, is_nameable
from tfaip.params.types import FunctionByName, load_function
from tfaip.trainer.optimizer import OptimizerParams, SGDOptimizer
from tfaip.trainer.scheduler import NewbobMultiEpochParams, NewbobRelParams


class Whole(ParamsBase):
    part: OptimizerParams = SGDOptimizer()
    anything: Any = None


# Not a class of ours, and found under a name of this module.
alias = subprocess.Popen

NAMES = ["os:system", "subprocess:Popen", "builtins:eval", "foreign:Mine", "foreign.sub:Mine", "foreign:Mine.x"]
NAMES += ["foreign:Mine:x", "foreign", "foreign:", ":Mine", "", "test.params.test_trust:Whole\n", "../foreign:Mine"]
NAMES += [".foreign:Mine", "tfaip_evil:X", "tést.params.test_trust:Whole"]


@pytest.mark.parametrize("name", [*NAMES, 3, None, ["foreign:Mine"], {"module": "foreign"}], ids=repr)
def test_refused_before_anything_is_imported(name: Any, foreign: Path) -> None:
    known = set(sys.modules)
    stored = {"__cls__": name}
    for values in ({"part": stored}, {"anything": stored}, stored):
        with pytest.raises(UsageError, match="__cls__"):
            from_dict(Whole, values)
    assert set(sys.modules) == known
    if name is not None:
        (foreign / "config.json").write_text(json.dumps({"optimizer": stored}))
        with pytest.raises(UsageError):
            tiny_params("--config", str(foreign / "config.json"))
    assert not (foreign / "marker").exists()


def test_trust_is_for_whole_names(foreign: Path) -> None:
    stored = {"part": {"__cls__": "foreign:Mine", "momentum": 0.5}}
    with pytest.raises(UsageError, match="refused"):
        from_dict(Whole, stored, trusted=["for"])
    assert not (foreign / "marker").exists()
    part = from_dict(Whole, stored, trusted=["foreign"]).part
    assert (type(part).__name__, part.momentum) == ("Mine", 0.5)
    assert (foreign / "marker").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test.params.test_trust:alias", "is not a params class derived from OptimizerParams"),
        ("test.params.test_trust:Whole", "is not a params class derived from OptimizerParams"),
        ("test.params.test_trust:Missing", "expected a class that module test.params.test_trust has"),
        ("test.params.test_trust:Harmless", "defined in foreign, is refused"),
        ("test.params.no_such:X", "'test.params.no_such'): put its directory on the PYTHONPATH"),
    ],
)
def test_allowed_modules_do_not_make_everything_allowed(
    name: str, message: str, foreign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import foreign as module  # type: ignore[import-not-found]

    monkeypatch.setattr(sys.modules[__name__], "Harmless", module.Mine, raising=False)
    with pytest.raises(UsageError) as error:
        from_dict(Whole, {"part": {"__cls__": name}})
    assert message in str(error.value)
    assert str(error.value).startswith("params.part")


@dataclass
class Job:
    """No params: whatever it does when it is made must not be asked for by a file."""

    command: str = ""

    def __post_init__(self) -> None:
        raise AssertionError(f"made with {self.command}")


def test_a_field_of_any_type_takes_params_only_from_the_own_package() -> None:
    job = {"__cls__": f"{__name__}:Job", "command": "rm"}
    for values in ({"anything": job}, {"anything": {"x": [job]}}):
        with pytest.raises(UntrustedName, match="Job.* is refused: a file may name it only if it is marked"):
            from_dict(Whole, values, trusted=[OwnPackage("test")])
    made = from_dict(Whole, {"anything": {"__cls__": f"{__name__}:Whole"}}, trusted=[OwnPackage("test")])
    assert made.anything == Whole()


@pytest.mark.parametrize("choice", ["optimizer: foreign:Mine", "optimizer: {__cls__: foreign:Mine}"])
def test_the_user_may_name_any_class_and_a_config_file_may_not(choice: str, foreign: Path) -> None:
    config = foreign / "config.yaml"
    config.write_text(choice)
    with pytest.raises(UsageError, match=r"foreign.* is refused.*; if you know the file, trust it: --trust"):
        tiny_params("--config", str(config))
    with pytest.raises(UsageError, match=r"^--x: __cls__ 'foreign:Mine' is refused"):
        Decoder(None).decode(Words(['{"__cls__": "foreign\\u003aMine"}']), OptimizerParams, "--x")  # hidden by JSON
    assert not (foreign / "marker").exists()
    assert type(tiny_params("--optimizer", "foreign:Mine").optimizer).__name__ == "Mine"
    assert (foreign / "marker").exists()
    config.write_text("optimizer: tfaip.trainer.optimizer.optimizers:SGDOptimizer")
    assert type(tiny_params("--config", str(config)).optimizer) is SGDOptimizer


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
        ("test.params.tiny_flags:dumps", ["test"], "expected a function that module test.params.tiny_flags has"),
        ("test.params.test_trust:Path", ["test"], r"defined in pathlib(\._local)?, is refused"),
        ("test.no_such_module:f", ["test"], "expected a module that can be imported"),
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
    class Marked: ...

    class Derived(Marked): ...

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


def test_names_of_returnn_as_attributes_and_keys_which_exist_here() -> None:
    with pytest.raises(AttributeError, match="relative_error_div_by_old does not exist; did you mean divide_by?"):
        NewbobMultiEpochParams().relative_error_div_by_old = True
    with pytest.raises(UsageError, match="has no 'learning_rates'; did you mean rates?"):
        NewbobMultiEpochParams.from_dict({"learning_rates": [0.1]})
    for flag in sorted(set(RETURNN_OPTIONS.values()) - {"learning_rate", "learning_rate.modulation"}):
        complaint = ""
        try:
            tiny_params("--learning_rate", "NewbobMultiEpoch", f"--{flag}=1")
        except UsageError as error:  # whatever else may be wrong with this value
            complaint = str(error)
        assert "unknown" not in complaint, flag
