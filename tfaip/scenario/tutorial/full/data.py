"""What a sample of the tutorial looks like, and where samples come from."""

from __future__ import annotations

from dataclasses import dataclass, field

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.generators.arrays import ArrayDataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec
from tfaip.params import pai_dataclass, pai_meta
from tfaip.scenario.tutorial.full.datasets import Dataset, Part, load_images


@pai_dataclass
@dataclass
class TutorialDataParams(DataBaseParams):
    """Params of the tutorial's data."""

    dataset: Dataset = field(
        default=Dataset.DIGITS,
        metadata=pai_meta(help="Images to learn from; all but digits are downloaded by Keras on first use"),
    )

    @staticmethod
    def cls() -> type[TutorialData]:
        return TutorialData


class TutorialData(DataBase[TutorialDataParams]):
    """An image and the number of its class, as they enter the model."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        size = self.params.dataset.image_size
        return {"img": TensorSpec((size, size, 1), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"label": TensorSpec((1,), "int32")}


@pai_dataclass
@dataclass
class TutorialGeneratorParams(DataGeneratorParams):
    """One part of a data set."""

    dataset: Dataset = field(default=Dataset.DIGITS, metadata=pai_meta(help="Images to take"))
    part: Part = field(default=Part.TRAIN, metadata=pai_meta(help="Images for the training or for the validation"))

    @staticmethod
    def cls() -> type[TutorialGenerator]:
        return TutorialGenerator


class TutorialGenerator(ArrayDataGenerator[TutorialGeneratorParams]):
    """Yields the images of one part; `meta` is the number of the image in it."""

    def load(self) -> Sample:
        images, labels = load_images(self.params.dataset, self.params.part)
        return Sample(inputs={"img": images}, targets={"label": labels}, meta=list(range(len(images))))
