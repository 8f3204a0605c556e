"""The smallest scenario: one hidden layer learns scikit-learn's handwritten digits (8x8 pixels).

tfaip-train tfaip.scenario.tutorial.min --trainer.output_dir runs/min --trainer.epochs 10
"""

from functools import cached_property

from tfaip import Data, Generator, ModelBaseParams, Sample, Scenario, Spec, option


class MinData(Data):
    """Shapes and types of a sample: 64 brightness values in [0, 1], and the digit."""

    inputs = {"img": Spec(64)}
    targets = {"digit": Spec(1, int)}


class MinDigits(Generator):
    """Digits of scikit-learn, of which every fifth one is kept for the validation."""

    validation: bool = option(False, "Read the digits for the validation")

    @cached_property
    def samples(self) -> list[Sample]:
        from sklearn.datasets import load_digits

        pairs = zip(*load_digits(return_X_y=True), strict=True)  # the brightness is 0 to 16
        samples = [Sample(inputs={"img": image / 16}, targets={"digit": [digit]}) for image, digit in pairs]
        return [sample for index, sample in enumerate(samples) if (index % 5 == 0) == self.validation]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]


class MinModelParams(ModelBaseParams, cls=".model:MinModel"):
    """Hyper-parameters of the model."""

    units: int = option(64, "Units of the hidden layer")


class MinScenario(Scenario):
    """Classification of handwritten digits, 8x8 pixels."""

    data, model = MinData, MinModelParams
    train, val = MinDigits(), MinDigits(validation=True)
    best = "max acc"  # the best model has the highest validation accuracy
