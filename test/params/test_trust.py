"""Files cannot make us import, let alone run, what nobody trusts; the command line may: classes of params."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from test.params.tiny_flags import tiny_params
from tfaip.errors import UsageError
from tfaip.params import ParamsBase
from tfaip.params.codec import Decoder, Words
from tfaip.params.stored import from_dict
from tfaip.params.trust import OwnPackage, UntrustedName
from tfaip.trainer.optimizer import OptimizerParams, SGDOptimizer


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
    with pytest.raises(TypeError, match=r"expected a list of packages: \['foreign'\]"):
        from_dict(Whole, {}, trusted="foreign")
    assert not (foreign / "marker").exists()
    part = from_dict(Whole, stored, trusted=["foreign"]).part
    assert (type(part).__name__, part.momentum) == ("Mine", 0.5)
    assert (foreign / "marker").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("test.params.test_trust:alias", "is not a params class derived from OptimizerParams"),
        ("test.params.test_trust:NAMES", "is not a params class derived from OptimizerParams"),
        ("test.params.test_trust:Whole", "is not a params class derived from OptimizerParams"),
        ("tfaip.util.files:os", "is not a params class derived from OptimizerParams"),
        ("test.params.test_trust:Missing", "has no class 'Missing'"),
        ("test.params.test_trust:Harmless", "defined in foreign, is refused"),
        ("test.params.no_such:X", "'test.params.no_such'): put the directory that holds it on the PYTHONPATH"),
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
    assert str(error.value).startswith("params.part: ")


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
