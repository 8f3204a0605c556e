"""Training that begins with linear alignments, then aligns three times and trains a larger network each time."""

from typing import Any

from aligned.scenario import AlignedScenario
from tfaip.imports import PredictStage, TrainStage


class LoopScenario(AlignedScenario):
    """Reads lines of digits; its stages use all eight epochs."""

    defaults = {"trainer.loss_weights": {"ctc": 0, "frames": 1}}

    @classmethod
    def stages(cls, params: Any, history: Any) -> Any:
        yield TrainStage("linear", epochs=1, overrides={"model.filters": [32, 32]})
        for number, (size, epochs) in enumerate([(32, 2), (48, 2), (64, 3)], start=1):
            aligned = yield PredictStage(f"align_{number}", include_targets=True)
            overrides = {"model.filters": [size, size], "train.alignment": aligned.file}
            yield TrainStage(f"train_{number}", epochs=epochs, overrides=overrides)
