"""Params of a warm start: what is accepted, from where, and what is refused at once."""

from __future__ import annotations

import pytest

from test.support.tiny.scenario import TinyScenario
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.trainer.warmstart import WarmStartMode, WarmStartParams, WarmstartParams


def parse(*flags: str) -> WarmStartParams:
    parser = ParamsParser(prog="p", description="d")
    params = TinyScenario.default_trainer_params()
    parser.add_params("trainer", type(params), default=params)
    return parser.parse(["--trainer.output_dir", "run", *flags]).trainer.warmstart


def test_from_the_command_line() -> None:
    assert parse() == WarmStartParams()
    assert parse("--warmstart.model", "a").model == "a"
    params = parse(
        *["--warmstart.model", "a", "b", "--warmstart.allow_partial", "True", "--warmstart.include", "x"],
        *["--warmstart.exclude", "y", "--warmstart.rename", "a->b", "c->d", "--warmstart.rename_targets", "e->f"],
        *["--warmstart.add_suffix", "/ema", "--warmstart.trim_graph_name", "False"],
    )
    assert params == WarmStartParams(
        model=["a", "b"],
        allow_partial=True,
        include="x",
        exclude="y",
        rename=["a->b", "c->d"],
        rename_targets=["e->f"],
        add_suffix="/ema",
        trim_graph_name=False,
    )


def test_the_flags_of_models_of_another_size() -> None:
    flags = ["--warmstart.mode", "subset"]
    params = parse(*flags, "--warmstart.blocks", "top=[3,5]", "side=[2]")
    assert params.mode is WarmStartMode.SUBSET
    assert params.blocks == {"top": [3, 5], "side": [2]}
    assert WarmStartParams.from_json(params.to_json()) == params


def test_each_source_has_a_prefix_or_none_has() -> None:
    params = parse("--warmstart.model", "a", "b", "--warmstart.prefixes", "left", "right/lm/")
    assert params.sources() == [("a", "left"), ("b", "right/lm")]
    assert WarmStartParams(model="a").sources() == [("a", "")]
    assert WarmStartParams(model=["a", "b"], prefixes=["", "lm"]).sources() == [("a", ""), ("b", "lm")]
    expected = r"^prefixes is \['lm'\], expected one for each source \(2\) of model, or none: change "
    with pytest.raises(UsageError, match=expected + "--warmstart.prefixes or --warmstart.model$"):
        parse("--warmstart.model", "a", "b", "--warmstart.prefixes", "lm")


@pytest.mark.parametrize(("given", "model"), [(None, []), ("a", "a"), (["a"], "a"), (["a", "b"], ["a", "b"])])
def test_one_path_is_a_text_everywhere(given: object, model: list[str] | str) -> None:
    assert WarmStartParams(model=given).model == model
    # So tfaip 1.2 stored it.
    assert WarmStartParams.from_dict({"model": given}).model == model
    stored = WarmStartParams(model=given).to_json()
    assert WarmStartParams.from_json(stored) == WarmStartParams(model=given)


def test_the_other_spelling_is_the_same_class() -> None:
    assert WarmstartParams is WarmStartParams


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("include", "(", r"^include is '\(', expected a regular expression .*: change --warmstart.include$"),
        ("rename", "a:b", r"^rename\[0\] is 'a:b', expected 'old->new' with .*: change --warmstart.rename$"),
    ],
)
def test_mistakes_are_found_before_anything_is_built(flag: str, value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(f"--warmstart.{flag}", value)
