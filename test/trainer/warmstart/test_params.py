"""Params of a warm start: what is accepted, from where, and what is refused at once."""

from __future__ import annotations

import pytest

from test.support.tiny.scenario import TinyScenario
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
    flags = ["--warmstart.model", "a", "b", "--warmstart.mode", "subset", "--warmstart.rename", "a->b", "c->d"]
    params = parse(*flags, "--warmstart.blocks", "top=[3,5]", "side=[2]")
    blocks = {"top": [3, 5], "side": [2]}
    assert params == WarmStartParams(
        model=["a", "b"], mode=WarmStartMode.SUBSET, rename=["a->b", "c->d"], blocks=blocks
    )
    assert WarmstartParams.from_json(params.to_json()) == params  # the other spelling is the same class


@pytest.mark.parametrize(("given", "model"), [(None, []), ("a", "a"), (["a"], "a"), (["a", "b"], ["a", "b"])])
def test_one_path_is_a_text_everywhere(given: object, model: list[str] | str) -> None:
    assert WarmStartParams(model=given).model == model
    # So tfaip 1.2 stored it.
    assert WarmStartParams.from_dict({"model": given}).model == model
    stored = WarmStartParams(model=given).to_json()
    assert WarmStartParams.from_json(stored) == WarmStartParams(model=given)
