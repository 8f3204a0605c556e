"""Lines of text: images of any width, read with connectionist temporal classification (CTC)."""

import numpy as np

from tfaip import Data, Evaluator, Generator, ModelBaseParams, Processor, Sample, Scenario, Spec, option, shared


class LineData(Data):
    """Appearance of a line."""

    height: int = option(12, "Height in pixels", low=4)
    alphabet: str = option("0123456789", "Characters that occur")
    inputs = {"img": Spec(None, "height"), "img_len": Spec(1, int)}
    targets = {"labels": Spec(None, int), "labels_len": Spec(1, int)}
    length_of = "img"


class Lines(Generator):
    """Synthetic lines: every character has a pattern, and between them are gaps."""

    size: int = option(2000, "Number of lines", low=1)
    seed: int = option(1, "Seed of the lines")
    max_chars: int = option(8, "Largest number of characters", low=1)
    data: LineData = shared()

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        rng = np.random.default_rng([self.seed, index])
        text = "".join(rng.choice(list(self.data.alphabet), rng.integers(1, self.max_chars, endpoint=True)))
        columns = [self._pattern(char, rng) for char in text]
        img = np.concatenate(columns) * 255
        return Sample(inputs={"img": img}, targets=text, meta={"text": text})

    def _pattern(self, char: str, rng: np.random.Generator) -> np.ndarray:
        """Return `[width, height]` pixels of a character, each column once or twice, and a gap."""
        pattern = np.random.default_rng(ord(char)).integers(0, 2, (5, self.data.height))
        pattern = np.repeat(pattern, rng.integers(1, 3, 5), axis=0)
        return np.pad(pattern, ((0, rng.integers(2, 5)), (0, 0)))


class Distort(Processor, modes="training"):
    """Augmentation: noise."""

    stddev: float = option(40.0, "Standard deviation of the noise, of 255", low=0)

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        img = sample.inputs["img"]
        return sample.new_inputs({"img": img + rng.normal(0, self.stddev, img.shape)})


class Encode(Processor):
    """Images as numbers from 0 to 1, text as labels from 1; 0 is the blank."""

    data: LineData = shared()

    def apply(self, sample: Sample) -> Sample:
        if sample.inputs is not None:
            img = (sample.inputs["img"] / 255).astype("float32")
            sample = sample.new_inputs({"img": img, "img_len": [len(img)]})
        if sample.targets is not None:
            labels = [self.data.alphabet.index(char) + 1 for char in sample.targets]
            sample = sample.new_targets({"labels": labels, "labels_len": [len(labels)]})
        return sample


class Decode(Processor):
    """Labels of the model as text."""

    data: LineData = shared()

    def apply(self, sample: Sample) -> Sample:
        text = "".join(self.data.alphabet[label - 1] for label in sample.outputs["labels"] if label > 0)
        return sample.new_outputs({"text": text})


class CharacterErrors(Evaluator):
    """Share of wrong characters (CER): insertions, deletions and substitutions."""

    ignore: str = option("", "Characters that do not count")

    def __enter__(self) -> "CharacterErrors":
        self.errors = self.characters = 0
        return self

    def update_state(self, sample: Sample) -> None:
        drop = str.maketrans("", "", self.ignore)
        truth, text = sample.meta["text"].translate(drop), sample.outputs["text"].translate(drop)
        self.errors += edit_distance(truth, text)
        self.characters += len(truth)

    def result(self) -> dict[str, float]:
        return {"cer": self.errors / max(self.characters, 1)}


def edit_distance(one: str, other: str) -> int:
    """Return the smallest number of insertions, deletions and substitutions (Levenshtein, 1966)."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


class LineModelParams(ModelBaseParams, cls=".model:LineModel", graph_cls=".model:LineGraph"):
    """Options of the model."""

    filters: list[int] = option([48, 48, 48], "Filters of each convolution", nargs="+")


class LineScenario(Scenario):
    """Reads lines of digits."""

    data, model, evaluator = LineData, LineModelParams, CharacterErrors
    train, val = Lines(), Lines(seed=2, size=200)
    processors, post_processors = [Distort(), Encode()], [Decode()]
    best = "min lav_l0_cer"
    defaults = {
        "trainer.epochs": 3,
        "trainer.lav_every_n": 1,
        "train.bucket_boundaries": [32, 64, 128],  # no line is longer, so JAX compiles the step three times
        "val.bucket_boundaries": [32, 64, 128],
    }
