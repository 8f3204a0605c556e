"""Images in a folder with a directory for each class: `digits/0/0000.png`, `digits/1/0001.png` ..."""

from functools import cached_property
from pathlib import Path

import numpy as np

from tfaip import Data, Generator, ModelBaseParams, Processor, Sample, Scenario, Spec, option, shared


class ImageData(Data):
    """Images of one size, and their classes."""

    folder: str = option("", "Folder with a directory of PNG files for each class", required=True)
    size: int = option(8, "Height and width of the images in pixels", low=1)
    classes: list[str] = option([], "Names of the classes (empty: the directories in the folder)")
    inputs = {"image": Spec("size", "size", 1)}
    targets = {"class": Spec(1, int)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.folder and not self.classes:  # stored with the model, which is used without the folder
            self.classes = sorted(path.name for path in Path(self.folder).iterdir() if path.is_dir())


class Images(Generator):
    """Images of the folder, of which every fifth one is for the validation."""

    validation: bool = option(False, "Read the images for the validation")
    data: ImageData = shared()

    @cached_property
    def files(self) -> list[Path]:
        files = sorted(Path(self.data.folder).glob("*/*.png"), key=lambda path: path.name)
        return [path for index, path in enumerate(files) if (index % 5 == 0) == self.validation]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Sample:
        from PIL import Image  # here, so that `--help` does not load it

        path = self.files[index]
        image = np.asarray(Image.open(path).convert("L"), "float32")[..., None] / 255
        label = self.data.classes.index(path.parent.name)
        return Sample(inputs={"image": image}, targets={"class": [label]}, meta=str(path))


class Brightness(Processor, modes="training"):
    """Augmentation: a random brightness."""

    stddev: float = option(0.1, "Standard deviation of the factor", low=0)

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        return sample.new_inputs({"image": sample.inputs["image"] * np.float32(rng.normal(1, self.stddev))})


class ImageModelParams(ModelBaseParams, cls=".model:ImageModel"):
    """Options of the model."""

    filters: list[int] = option([16, 32], "Filters of each convolution", nargs="+")


class ImageScenario(Scenario):
    """Classification of images."""

    data, model, train, val = ImageData, ImageModelParams, Images(), Images(validation=True)
    processors, best, defaults = [Brightness()], "max acc", {"trainer.epochs": 10}
