"""Lines of digits with a label for each column: targets of a training without CTC loss."""

from functools import cached_property

import numpy as np

from lines.scenario import Decode, Distort, Encode, LineData, LineModelParams, Lines, LineScenario
from tfaip import Sample, Spec, option
from tfaip.layers.ctcalignment import ctc_align
from tfaip.predict.samplefile import read_samples


class AlignedData(LineData):
    """Appearance of a line, and its alignment."""

    targets = {**LineData.targets, "frames": Spec(None, int)}


class AlignedLines(Lines):
    """Lines, and the alignments that `Align` has found."""

    alignment: str = option("", "File of a PredictStage with the alignments (empty: linear ones)")

    @cached_property
    def alignments(self) -> dict[int, np.ndarray]:
        return {sample.meta["index"]: sample.outputs["frames"] for sample in read_samples(self.alignment)}

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        meta = {**sample.meta, "index": index, "columns": len(sample.inputs["img"])}
        if self.alignment:
            meta["frames"] = self.alignments[index]
        return sample.new_meta(meta)


class EncodeAlignment(Encode):
    """As `Encode`, with the label of each column."""

    def apply(self, sample: Sample) -> Sample:
        sample = super().apply(sample)
        if sample.targets is None:
            return sample
        frames = sample.meta.pop("frames", None)
        if frames is None:
            frames = linear_alignment(sample.targets["labels"], sample.meta["columns"])
        return sample.new_targets({**sample.targets, "frames": frames})


class Align(Decode):
    """As `Decode`, with the best alignment if the text is known."""

    def apply(self, sample: Sample) -> Sample:
        outputs, targets = sample.outputs, sample.targets
        sample = super().apply(sample)
        if targets is None:
            return sample
        logits = outputs["logits"][: int(outputs["length"][0])]
        labels = targets["labels"][: int(targets["labels_len"][0])]
        frames = np.repeat(ctc_align(logits, labels).labels, 2)[: sample.meta["columns"]]
        return sample.new_outputs({**sample.outputs, "frames": frames})


def linear_alignment(labels: list[int], length: int) -> list[int]:
    """Return the label of each of `length` columns: equal parts, the last third of each is the blank."""
    place = (np.arange(length) + 0.5) / length * len(labels)
    return np.where(place % 1 < 2 / 3, np.take(labels, place.astype(int)), 0).tolist()


class AlignedModelParams(LineModelParams, cls=".model:AlignedModel"):
    """Options of the model."""

    filters: list[int] = option([64, 64], "Filters of each convolution", nargs="+")


class AlignedScenario(LineScenario):
    """Reads lines of digits after a training with alignments."""

    data, model = AlignedData, AlignedModelParams
    train, val = AlignedLines(), AlignedLines(seed=2, size=200)
    processors, post_processors = [Distort(), EncodeAlignment()], [Align()]
    defaults = {"trainer.epochs": 8, "learning_rate.lr": 0.003}
