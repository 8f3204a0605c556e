"""The sequences with a program of stages."""

from __future__ import annotations

import random
from typing import Any

from tfaip.imports import CallStage, PredictStage, TrainStage

from .scenario import SequenceScenario


class ProgramScenario(SequenceScenario):
    """Trains, aligns and counts until the loss is small or the epochs are used, with sizes that are drawn."""

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        rng = random.Random(params.random_seed)  # noqa: S311 (no secret)
        done = yield TrainStage("first", epochs=2, overrides={"model.units": 3, "optimizer": "SGD"})
        number = 0
        while done.last_epoch < 10 and done.values["val_loss"] > 1e-6:
            applied = yield PredictStage("apply" if number == 0 else f"apply_{number}", file_name="predictions.npz")
            counted = yield CallStage(f"count_{number}", function=f"{__package__}.calls:count_samples")
            overrides = {"model.units": rng.randint(3, 12), "train.samples": counted.value - len(history) % 2}
            assert applied.file.endswith(".npz")
            done = yield TrainStage(f"train_{number}", epochs=2, overrides=overrides)
            number += 1
