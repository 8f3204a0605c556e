"""Lines of a brightness that tells the class, whose names are files in a folder; loads no backend."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from tfaip import (
    Data,
    Evaluator,
    Generator,
    ModelBaseParams,
    Processor,
    Sample,
    Scenario,
    Spec,
    StreamProcessor,
    option,
    shared,
)


class LineData(Data):
    """Appearance of a line."""

    height: int = option(4, "Height in pixels", low=1)
    folder: str = option("", "Directory with a file for each class")

    inputs = {"img": Spec(None, "height"), "img_len": Spec(1, int), "prior": Spec("num_classes")}
    targets = {"label": Spec(1, int)}
    length_of = "img"

    @cached_property
    def classes(self) -> list[str]:
        return sorted(path.stem for path in Path(self.folder).iterdir())

    @property
    def num_classes(self) -> int:
        return len(self.classes)


class Lines(Generator):
    """Lines of each class in turn."""

    size: int = 24
    brightness: float = 1.0
    data: LineData = shared()

    def __bool__(self) -> bool:
        raise AssertionError("neither generators nor their params are tested for truth")

    def __len__(self) -> int:
        assert self.mode, "only the generator itself has a length, not its params"
        return self.size

    def __getitem__(self, index: int) -> Sample:
        assert self.mode
        self.last_index = index  # reaches neither the params nor a file
        label = index % len(self.data.classes)
        image = np.full((3 + index % 5, self.data.height), label * self.brightness, "float32")
        return Sample(inputs={"img": image}, targets={"label": [label]}, meta={"index": index})


class OtherLines(Lines):
    """Lines of another brightness."""

    brightness = 2.0


class Distort(Processor, modes="training"):
    """Noise."""

    stddev: float = option(0.01, "Standard deviation", low=0)

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        self.count = getattr(self, "count", 0) + 1
        image = sample.inputs["img"]
        return sample.new_inputs({"img": image + rng.normal(0, self.stddev, image.shape).astype("float32")})


class Encode(Processor):
    """Further inputs."""

    data: LineData = shared()

    def apply(self, sample: Sample) -> Sample:
        image = sample.inputs["img"]
        prior = np.full(self.data.num_classes, 1 / self.data.num_classes, "float32")
        return sample.new_inputs({"img": image, "img_len": [len(image)], "prior": prior})


class Decode(StreamProcessor):
    """Names of classes."""

    data: LineData = shared()

    def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
        for sample in samples:
            name = self.data.classes[int(np.argmax(sample.outputs["prob"]))]
            yield sample.new_outputs({**sample.outputs, "name": name})


class LineErrors(Evaluator):
    """Share of wrong names."""

    ignore: str = option("", "Class that does not count")
    data: LineData = shared()

    def __enter__(self) -> Self:
        self.wrong: list[bool] = []
        return self

    def update_state(self, sample: Sample) -> None:
        truth = self.data.classes[int(sample.targets["label"][0])]
        if truth != self.ignore:
            self.wrong.append(sample.outputs["name"] != truth)

    def result(self) -> dict[str, Any]:
        return {"error": float(np.mean(self.wrong)), "lines": len(self.wrong)}


class LineModel(ModelBaseParams, cls=".lines_model:Reader", graph_cls=".lines_model:ReaderGraph"):
    """Hyper-parameters."""

    units: int = 8
    data: LineData = shared()


class LineScenario(Scenario):
    """Tells lines apart."""

    data, model, evaluator = LineData, LineModel, LineErrors
    train, val = Lines(), Lines(size=12)
    processors, post_processors = [Distort(), Encode()], [Decode()]
    defaults = {"trainer.epochs": 2, "train.num_processes": 0, "val.num_processes": 0}
