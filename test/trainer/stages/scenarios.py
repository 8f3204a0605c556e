"""The tiny scenario with hooks of a pretraining and programs of stages, as users write them."""

from typing import Any

from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from tfaip.trainer.stages.params import PredictStage, TrainStage
from tfaip.trainer.stages.program import PlannedStage, preview_stages


def tiny_params(epochs: int = 20, **values: Any) -> TinyTrainerParams:
    """Return the params of the tiny scenario with other values."""
    params = TinyScenario.default_trainer_params()
    params.epochs = epochs
    for name, value in values.items():
        setattr(params, name, value)
    params.__post_init__()
    return params


def plan_of(scenario: Any = TinyScenario, **values: Any) -> list[PlannedStage]:
    """Return the stages of a run of 20 epochs."""
    return list(preview_stages(tiny_params(**values), scenario).stages)


def spans(plan: list[PlannedStage]) -> list[tuple[str, int, int]]:
    """Return name, first and last epoch of each stage."""
    return [(stage.name, stage.first_epoch, stage.last_epoch) for stage in plan]


class ConstructionScenario(TinyScenario):
    """`custom_construction_algo` of RETURNN's documentation: the weight of a loss grows from 0 to 0.8."""

    @classmethod
    def pretraining(cls, idx: int, params: TinyTrainerParams) -> TinyTrainerParams | None:
        if idx == 5:
            return None
        params.loss_weights["mse"] = min(idx / 5, 1.0)
        return params


class EpochScenario(TinyScenario):
    """Other units in epochs 1-2 and 3, then none."""

    @classmethod
    def params_for_epoch(cls, epoch: int, params: TinyTrainerParams, **kwargs: Any) -> TinyTrainerParams | None:
        if epoch > 3:
            return None
        params.scenario.model.units = 2 if epoch < 3 else 4
        return params


class AlignedScenario(TinyScenario):
    """Example 1 of RETURNN's documentation: train, then align and train a larger model until it is good."""

    @classmethod
    def stages(cls, params: TinyTrainerParams, history: Any) -> Any:
        yield TrainStage("linear", epochs=1, overrides={"model.units": 2})
        for number in range(3):
            aligned = yield PredictStage(f"align_{number}", data="train")  # type: ignore[arg-type]
            overrides = {"model.units": 4 + number, "no_train_scope": aligned.file}
            done = yield TrainStage(f"train_{number}", epochs=2, overrides=overrides)
            if done.values["loss"] < 0.5:
                break


def pretrained(hook: Any, name: str = "pretraining") -> type[TinyScenario]:
    """Return a scenario whose hook is this function of number and params."""
    return type("Returning", (TinyScenario,), {name: classmethod(lambda cls, number, params: hook(number, params))})


def programmed(*stages: Any) -> type[TinyScenario]:
    """Return a scenario whose program yields these stages."""

    class Programmed(TinyScenario):
        @classmethod
        def stages(cls, params: Any, history: Any) -> Any:
            for stage in stages:
                _ = yield stage

    return Programmed
