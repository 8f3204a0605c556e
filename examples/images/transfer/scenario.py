"""Few images of each class, and a backbone whose weights are given as a file."""

from functools import cached_property
from pathlib import Path
from typing import Any

from images.scenario import ImageData, Images, ImageScenario

from tfaip import ModelBaseParams, option


class FewImages(Images):
    """Images of the folder, of each class only some."""

    per_class: int = option(0, "Number of images of each class (0: all)", low=0)

    @cached_property
    def files(self) -> list[Path]:
        files = super().files
        if not self.per_class:
            return files
        by_class = [[path for path in files if path.parent.name == name] for name in self.data.classes]
        return [path for paths in by_class for path in paths[: self.per_class]]


class TransferModelParams(ModelBaseParams, cls=".model:TransferModel"):
    """Options of the model."""

    backbone: str = option("", "File with the first weights of the backbone (empty: random ones)")
    dropout: float = option(0.3, "Share of the features that are dropped in training", low=0, high=0.9)


class TransferScenario(ImageScenario):
    """Classification of images, of which there are few."""

    data, model, train, val = ImageData, TransferModelParams, FewImages(), FewImages(validation=True)
    defaults = {"trainer.epochs": 40}

    @classmethod
    def trainer_cls(cls) -> Any:
        from transfer.trainer import TransferTrainer  # here, since it loads Keras

        return TransferTrainer
