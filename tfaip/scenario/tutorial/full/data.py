"""Samples of the tutorial: their shapes, and the generator that reads them."""

from __future__ import annotations

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.generators.arrays import ArrayDataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec
from tfaip.params import option
from tfaip.scenario.tutorial.full.datasets import Dataset, Part, load_images


class TutorialDataParams(DataBaseParams, cls=":TutorialData"):
    """Params of the tutorial's data."""

    dataset: Dataset = option(
        Dataset.DIGITS, "Images to learn from; all but digits are downloaded by Keras on first use"
    )


class TutorialData(DataBase[TutorialDataParams]):
    """Shapes (without the batch dimension) and types of an image and its class."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        size = self.params.dataset.image_size
        return {"img": TensorSpec((size, size, 1), "float32")}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"label": TensorSpec((1,), "int32")}


class TutorialGeneratorParams(DataGeneratorParams, cls=":TutorialGenerator"):
    """Choice of a part of a data set."""

    dataset: Dataset = option(Dataset.DIGITS, "Images to read")
    part: Part = option(Part.TRAIN, "Images for the training or for the validation")


class TutorialGenerator(ArrayDataGenerator[TutorialGeneratorParams]):
    """Generator of the images of one part; `meta` is the number of the image in the part.

    The images of all data sets fit into memory. For data that do not, derive from `DataGenerator`
    and load a sample in `__getitem__`.
    """

    def load(self) -> Sample:
        images, labels = load_images(self.params.dataset, self.params.part)
        return Sample(inputs={"img": images}, targets={"label": labels}, meta=list(range(len(images))))
