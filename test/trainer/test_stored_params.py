"""What a training stores can be read again; a value that cannot be is named before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Tuple  # noqa: UP035

import pytest

from test.trainer.line import LineDataParams, LineGraph, LineModel, LineModelParams, LinePipelineParams, line_params
from tfaip.errors import UsageError
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.params import pai_dataclass
from tfaip.params.stored import load_params
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import TrainerParams


@pai_dataclass
@dataclass
class LooseModelParams(LineModelParams):
    """Annotations and defaults as they are found in scenarios."""

    shape: Tuple[int, int, int] = (4, 1.0, 0)  # type: ignore[assignment]  # noqa: UP006
    factor: float = 1
    width: int = None  # type: ignore[assignment]
    depth: int = 2
    sizes: list[float] = field(default_factory=lambda: (1, 2))  # type: ignore[arg-type,return-value]

    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        return LineModel

    def graph_cls(self) -> type[GraphBase[Any]]:
        return LineGraph


class LooseScenarioParams(ScenarioBaseParams[LineDataParams, LooseModelParams]):
    pass


class LooseTrainerParams(TrainerParams[LooseScenarioParams, LinePipelineParams]):
    pass


class LooseScenario(ScenarioBase[LooseScenarioParams, LooseTrainerParams]):
    pass


def loose_params(run: Path | None) -> LooseTrainerParams:
    line = line_params([1, 2], output_dir=run)
    params = LooseScenario.default_trainer_params()
    for name in ("gen", "optimizer", "learning_rate", "epochs", "random_seed", "output_dir", "skip_model_load_test"):
        setattr(params, name, getattr(line, name))
    params.scenario.export_serve = False
    return params


@pytest.mark.slow
def test_values_that_fit_without_loss_are_converted_and_can_be_read_again(tmp_path: Path) -> None:
    params = loose_params(tmp_path / "run")
    params.force_eager, params.epochs, params.optimizer.clip_value = 0, 1.0, 2  # type: ignore[assignment]
    params.output_dir = tmp_path / "run"  # type: ignore[assignment]
    LooseScenario.create_trainer(params).train()
    stored = load_params(tmp_path / "run/trainer_params.json", LooseTrainerParams)
    assert (stored.force_eager, stored.epochs, stored.optimizer.clip_value) == (False, 1, 2.0)
    model = LooseScenario.params_from_path(tmp_path / "run/best").model
    assert (model.shape, model.factor, model.width, model.sizes) == ((4, 1, 0), 1.0, None, [1.0, 2.0])
    assert [type(v) for v in (*model.shape, model.factor, *model.sizes)] == [int, int, int, float, float, float]
    stored.epochs = 2
    assert LooseScenario.create_trainer(stored, restore=True).train()["loss"] < 0


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("epochs", "three", "--trainer.epochs: expected int, got 'three'"),
        ("scenario.model.shape", (4, 1.0, 0.3), "--model.shape.2: expected int, got 0.3"),
        ("gen.train.x", [1, None], "--train.x.1: expected float, got None"),
        ("gen.val", None, "--val: expected PointsParams, got None"),
        ("scenario.data.pre_proc.processors", "none", "--data.pre_proc.processors: expected list"),
        ("output_dir", "a\0b", "output_dir is 'a\\x00b', expected a directory (it holds a NUL character)"),
    ],
)
def test_a_wrong_type_is_named_when_the_trainer_is_made(path: str, value: Any, message: str) -> None:
    params = loose_params(None)
    *nodes, name = path.split(".")
    node: Any = params
    for part in nodes:
        node = getattr(node, part)
    setattr(node, name, value)
    with pytest.raises((UsageError, ValueError)) as error:
        LooseScenario.create_trainer(params)
    assert str(error.value).startswith(message)


def test_what_is_set_after_the_trainer_was_made_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    trainer = LooseScenario.create_trainer(loose_params(tmp_path / "run"))
    trainer.params.scenario.model.shape = (4, 1.0, 0.3)  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"^--model\.shape\.2: expected int, got 0\.3$"):
        trainer.train()
    assert list(tmp_path.iterdir()) == []


def test_params_of_a_class_that_the_scenario_would_not_read_are_refused(tmp_path: Path) -> None:
    params = line_params([1, 2], output_dir=tmp_path / "run")
    scenario = LooseScenario(LooseScenario.default_params())
    with pytest.raises(UsageError, match="is not a params class derived from LooseTrainerParams"):
        LooseScenario.trainer_cls()(params, scenario).train()
    assert list(tmp_path.iterdir()) == []
