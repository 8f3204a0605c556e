"""The smallest scenario: one hidden layer learns scikit-learn's handwritten digits (8x8 pixels).

tfaip-train tfaip.scenario.tutorial.min --trainer.output_dir runs/min --trainer.epochs 10
"""

from functools import cached_property

from tfaip import Data, Generator, ModelBaseParams, Sample, Scenario, Spec, option


class MinData(Data):
    """Shapes and types of a sample: 64 brightness values in [0, 1], and the digit."""

    inputs = {"img": Spec(64)}
    targets = {"digit": Spec(1, int)}


class Digits(Generator):
    """Handwritten digits; every fifth is held out for the validation."""

    held_out: bool = option(False, "Use the digits that are held out, instead of the others")

    @cached_property
    def samples(self) -> list[Sample]:
        from sklearn.datasets import load_digits

        digits = enumerate(zip(*load_digits(return_X_y=True), strict=True))
        chosen = [digit for index, digit in digits if (index % 5 == 0) == self.held_out]
        return [Sample(inputs={"img": image / 16}, targets={"digit": [digit]}) for image, digit in chosen]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Sample:
        return self.samples[index]


class MinModelParams(ModelBaseParams, cls=".model:MinModel"):
    """Hyper-parameters of the model; the class is imported when it is needed."""

    units: int = option(64, "Units of the hidden layer", low=1)


class MinScenario(Scenario):
    """Read handwritten digits."""

    data, model = MinData, MinModelParams
    train, val = Digits(), Digits(held_out=True)
    best = "max acc"
