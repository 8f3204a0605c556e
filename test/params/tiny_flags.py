"""The command line of the tiny scenario."""

from __future__ import annotations

from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from tfaip.params import nameable
from tfaip.params.commandline import ParamsParser


@nameable
def tiny_params(*argv: str) -> TinyTrainerParams:
    """What these flags make of the trainer params."""
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TinyTrainerParams, default=TinyScenario.default_trainer_params())
    return parser.parse(["--trainer.output_dir", "unused", *argv]).trainer  # type: ignore[no-any-return]
