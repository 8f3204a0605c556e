"""The smallest scenario: one hidden layer learns scikit-learn's handwritten digits (8x8 pixels).

This module has the params and the data and loads no numeric backend. The graph and the model are in
`model.py`, which is imported when a model is built.

    tfaip-train tfaip.scenario.tutorial.min --trainer.output_dir runs/min --trainer.epochs 10
"""

from tfaip import DataBaseParams, ModelBaseParams, Sample, ScenarioBaseParams, TrainerParams, TrainerPipelineParamsBase
from tfaip.data.data import DataBase
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.specs import TensorSpec
from tfaip.params import option
from tfaip.scenario.scenariobase import ScenarioBase


class MinDataParams(DataBaseParams, cls=":MinData"):
    """Params of the data, without further options."""


class MinData(DataBase[MinDataParams]):
    """Shapes and types of a sample: 64 brightness values in [0, 1], and the digit."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"img": TensorSpec((64,), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"digit": TensorSpec((1,), "int32")}


class MinModelParams(ModelBaseParams, cls=".model:MinModel", graph_cls=".model:MinGraph"):
    """Hyper-parameters of the model."""

    units: int = option(64, "Units of the hidden layer")


class MinScenarioParams(ScenarioBaseParams[MinDataParams, MinModelParams]):
    """Params of the data and the model, which an exported model stores."""


class MinPipelineParams(TrainerPipelineParamsBase[RawDataGeneratorParams, RawDataGeneratorParams]):
    """Training and validation data; every fifth digit is kept for the validation."""

    def train_gen(self) -> RawDataGeneratorParams:
        samples = [sample for i, sample in enumerate(load_samples()) if i % 5 != 0]
        return RawDataGeneratorParams(samples=samples)

    def val_gen(self) -> RawDataGeneratorParams:
        return RawDataGeneratorParams(samples=load_samples()[::5])


def load_samples() -> list[Sample]:
    """Return all digits; scikit-learn has brightness values from 0 to 16."""
    from sklearn.datasets import load_digits

    pairs = zip(*load_digits(return_X_y=True), strict=True)
    return [Sample(inputs={"img": image / 16}, targets={"digit": [digit]}) for image, digit in pairs]


class MinTrainerParams(TrainerParams[MinScenarioParams, MinPipelineParams]):
    """All options of a training."""


class MinScenario(ScenarioBase[MinScenarioParams, MinTrainerParams]):
    """Scenario, the class that `tfaip-train` imports; it binds the params to each other."""
