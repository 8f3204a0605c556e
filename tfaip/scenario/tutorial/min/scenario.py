"""The smallest scenario: one hidden layer learns scikit-learn's handwritten digits (8x8 pixels).

What the command line shows stands here and imports no backend; the graph and the model stand in `model.py`.

    tfaip-train tfaip.scenario.tutorial.min --trainer.output_dir runs/min --trainer.epochs 10
"""

from dataclasses import dataclass, field

from tfaip import DataBaseParams, ModelBaseParams, Sample, ScenarioBaseParams, TrainerParams
from tfaip.data.specs import TensorSpec
from tfaip.imports import DataBase, RawDataGeneratorParams, ScenarioBase, TrainerPipelineParamsBase
from tfaip.params import pai_dataclass, pai_meta


class MinDataParams(DataBaseParams):
    """The data needs no options."""

    @staticmethod
    def cls() -> type:
        return MinData


class MinData(DataBase[MinDataParams]):
    """What a sample looks like: 64 brightness values in [0, 1], and the digit that they show."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"img": TensorSpec((64,), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"digit": TensorSpec((1,), "int32")}


@pai_dataclass
@dataclass
class MinModelParams(ModelBaseParams):
    """Hyper-parameters of the model."""

    units: int = field(default=64, metadata=pai_meta(help="Units of the hidden layer"))

    @staticmethod
    def cls() -> type:
        from tfaip.scenario.tutorial.min.model import MinModel

        return MinModel

    def graph_cls(self) -> type:
        from tfaip.scenario.tutorial.min.model import MinGraph

        return MinGraph


class MinScenarioParams(ScenarioBaseParams[MinDataParams, MinModelParams]):
    """Data and model."""


class MinPipelineParams(TrainerPipelineParamsBase[RawDataGeneratorParams, RawDataGeneratorParams]):
    """Every fifth digit is kept for the validation."""

    def train_gen(self) -> RawDataGeneratorParams:
        return RawDataGeneratorParams(samples=[s for i, s in enumerate(load_samples()) if i % 5])

    def val_gen(self) -> RawDataGeneratorParams:
        return RawDataGeneratorParams(samples=load_samples()[::5])


def load_samples() -> list[Sample]:
    from sklearn.datasets import load_digits

    pairs = zip(*load_digits(return_X_y=True), strict=True)
    return [Sample(inputs={"img": image / 16}, targets={"digit": [digit]}) for image, digit in pairs]


class MinTrainerParams(TrainerParams[MinScenarioParams, MinPipelineParams]):
    """The options of a training."""


class MinScenario(ScenarioBase[MinScenarioParams, MinTrainerParams]):
    """Ties the params together: the class that `tfaip-train` looks for."""
