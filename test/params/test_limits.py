"""Limits of fields: numbers at their ends, and the flag of what is refused. Help texts hold the limits themselves."""

from __future__ import annotations

import copy
import math
from dataclasses import field
from pathlib import Path
from typing import Any

import pytest

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option, post_init
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import FieldAdvice, FieldError, check_fields, limits
from tfaip.params.settings import flags_of, prepare
from tfaip.params.stored import from_dict, to_dict
from tfaip.params.tree import get_path
from tfaip.predict.params import LAVParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario

TRAINER = TutorialScenario.trainer_params_cls()
GROUP = "--optimizer.groups OptimizerGroup OptimizerGroup --optimizer.groups.0.match a --optimizer.groups.1.match b "
PROCESSORS = "--data.pre_proc.processors Normalize RandomShift "


def parsed(line: str) -> Any:
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TRAINER)
    return parser.parse(["--trainer.output_dir", "run", *line.split()]).trainer


def test_what_is_refused_has_the_flag_or_its_place_in_a_file(tmp_path: Path) -> None:
    momentum = "--optimizer.groups.1.optimizer SGD --optimizer.groups.1.optimizer.momentum"
    config = tmp_path / "conf.yaml"
    config.write_text("optimizer: {clip_norm: -1.0}\n")
    for line, message, flag in [
        ("--trainer.profile_steps 0 1", "profile_steps[0] is 0, expected at least 1", "--trainer.profile_steps"),
        (f"{GROUP}{momentum} 1.5", "momentum is 1.5, expected a number", momentum.split()[-1]),
        ("--learning_rate.min_lr 1", "min_lr is 1.0, expected at most lr (0.001)", "--learning_rate.min_lr or --l"),
        (f"--config {config}", "clip_norm is -1.0", f"optimizer.clip_norm in {config}"),
    ]:
        with pytest.raises(UsageError) as caught:
            parsed(line)
        assert str(caught.value).startswith(message)
        assert f": change {flag}" in str(caught.value)
    stored = to_dict(parsed(GROUP))
    stored["optimizer"]["groups"][1]["lr_factor"] = -1.0
    with pytest.raises(UsageError, match=r"optimizer\.groups\.1\.lr_factor is -1.0, expected at least 0$"):
        from_dict(TRAINER, stored, trusted=["tfaip"])


@pytest.mark.parametrize(
    ("path", "value", "flag"),
    [
        ("gen.setup.val.batch_size", 0, "--val.batch_size"),
        ("optimizer.groups.1.lr_factor", -1.0, "--optimizer.groups.1.lr_factor"),
        ("scenario.data.pre_proc.processors.1.share", 2.0, "--data.pre_proc.processors.1.share"),
        ("early_stopping.best_model_name", "train", "--early_stopping.best_model_name"),
    ],
)
def test_what_changed_after_the_constructor(path: str, value: Any, flag: str) -> None:
    params = parsed(GROUP + PROCESSORS)
    parent, _, name = path.rpartition(".")
    setattr(get_path(params, parent), name, value)
    with pytest.raises(FieldError) as caught:
        post_init(params)
    assert str(caught.value).startswith(f"{path} is ")
    with pytest.raises(FieldError, match=rf"^{name} is .*: change {flag}$"):
        prepare(params, "trainer")


class OwnParams(ParamsBase):
    share: float = option(0.5, "A share", low=0, below=1)
    size: int | None = option(8, low=1, also={-1: "all"})
    kind: str = option("a", choices=["a", "b"])
    sizes: dict[str, int] = option({}, high=3)
    any_number: float = option(0.0, finite=True)
    computed: int = field(init=False, metadata=limits(low=1))


class WithoutBase(OwnParams):
    def __post_init__(self) -> None:
        pass


class Again(OwnParams):
    share: float = 0.9
    size: int | None = option(4, low=4)


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (OwnParams, {"share": 1.0}, "share is 1.0, expected a number in [0, 1)"),
        (OwnParams, {"share": math.nextafter(0.0, -1.0)}, "share is -5e-324, expected a number in [0, 1)"),
        (OwnParams, {"share": math.nan}, "share is nan, expected a finite number in [0, 1)"),
        (OwnParams, {"share": "half"}, "share is 'half', expected a number in [0, 1)"),
        (OwnParams, {"size": 0}, "size is 0, expected at least 1, or -1 for all, or None"),
        (OwnParams, {"size": -math.inf}, "size is -inf, expected a finite number, at least 1, or -1 for all, or None"),
        (OwnParams, {"kind": "c"}, "kind is 'c', expected one of a, b"),
        (OwnParams, {"sizes": {"x": 1, "y": 4}}, "sizes['y'] is 4, expected at most 3"),
        (OwnParams, {"any_number": math.inf}, "any_number is inf, expected a finite number"),
        (OwnParams, {"any_number": "x" * 1000}, f"any_number is '{'x' * 50}"),
        # A subclass keeps the limits of a field that it declares again.
        (Again, {"share": 2}, "share is 2, expected a number in [0, 1)"),
        (Again, {"size": 3}, "size is 3, expected at least 4, or None"),
    ],
)
def test_messages(cls: type[OwnParams], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        cls(**fields)
    assert str(caught.value) == message or (message.endswith("xx") and str(caught.value).startswith(message))


def test_values_that_are_allowed_and_one_that_is_set_later() -> None:
    assert OwnParams(share=0, size=None, kind="b", sizes={"x": -5}).size is None
    assert OwnParams(size=-1).size == -1
    assert OwnParams(share=math.nextafter(1.0, 0.0), size=1, sizes={"x": 3}).size == 1
    assert OwnParams(any_number=10**400).any_number == 10**400  # refused where the types are checked
    params = OwnParams()
    params.computed = 0
    with pytest.raises(FieldError, match="computed is 0, expected at least 1"):
        check_fields(params)
    # A tree is checked even if a class does not call the inherited method.
    params = WithoutBase(share=3)
    params.computed = 1
    with pytest.raises(FieldError, match="share is 3"):
        post_init(params)


def test_an_error_gets_its_path_and_its_flags_from_above() -> None:
    for error, path, named in [
        (
            FieldError("a", 1, "2", index="k", others=["b"]),
            "node.a['k'] is 1, expected 2",
            "a['k'] is 1, expected 2: change -a or -b",
        ),
        (FieldAdvice("{a} fits no {b.c}", "a", "b.c"), "node.a fits no node.b.c", "-a fits no -b.c"),
    ]:
        error.move_below("node")
        again = copy.copy(error)
        assert str(again) == str(error) == path
        again.flags = ["-" + place.removeprefix("node.") for place in error.paths]
        assert str(again) == named
    message = "^list_ratios is 1, expected 2: change list_ratios$"  # of an object outside of the tree
    with pytest.raises(FieldError, match=message), flags_of(LAVParams(), "lav"):
        raise FieldError("list_ratios", 1, "2")
