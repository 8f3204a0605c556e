"""A tag for each word of a line, with a vocabulary that belongs to the model."""

import re
from functools import cached_property
from pathlib import Path

import numpy as np

from tfaip import Data, Evaluator, Generator, ModelBaseParams, Processor, Sample, Scenario, Spec, option, shared
from tfaip.params.resource import Resource

CODE = ["attribute", "comment", "function", "keyword", "name", "number", "operator", "string"]


class TextData(Data):
    """Words by their numbers: 0 is the padding, 1 a word that is not in the vocabulary."""

    vocabulary: Resource | None = option(None, "File with a word per line", required=True)
    tags: list[str] = option(CODE, "Names of the tags", nargs="+")
    inputs = {"words": Spec(None, int)}
    targets = {"tags": Spec(None, int)}
    length_of = "words"

    @cached_property
    def numbers(self) -> dict[str, int]:
        words = Path(self.vocabulary).read_text(encoding="utf-8").split("\n")
        return {word: number for number, word in enumerate(words[:-1], start=2)}


class TaggedLines(Generator):
    """Lines of a file: the words, with a space between, and if known a tabulator and their tags."""

    file: str = option("", "File with a line for each sample", required=True)

    @cached_property
    def lines(self) -> list[str]:
        return Path(self.file).read_text(encoding="utf-8").splitlines()

    def __len__(self) -> int:
        return len(self.lines)

    def __getitem__(self, index: int) -> Sample:
        text, _, tags = self.lines[index].partition("\t")
        words = [word for word, _ in words_of(text)]
        return Sample(inputs=words, targets=tags.split() or None, meta={"words": words, "tags": tags.split()})


def words_of(text: str) -> list[tuple[str, int]]:
    """Return each word or sign, and its place in the text."""
    return [(match[0], match.start()) for match in re.finditer(r"\w+|[^\w\s]", text)]


def normalised(word: str) -> str:
    """Return the word as the vocabulary has it: digits are all the same."""
    return re.sub(r"\d", "0", word)


class Encode(Processor):
    """Numbers of words and tags."""

    data: TextData = shared()

    def apply(self, sample: Sample) -> Sample:
        if sample.inputs is not None:
            numbers = self.data.numbers
            sample = sample.new_inputs({"words": [numbers.get(normalised(word), 1) for word in sample.inputs]})
        if sample.targets is not None:
            sample = sample.new_targets({"tags": [self.data.tags.index(tag) for tag in sample.targets]})
        return sample


class Decode(Processor):
    """Names of the most probable tags, without those of the padding."""

    data: TextData = shared()

    def apply(self, sample: Sample) -> Sample:
        best = np.argmax(sample.outputs["tags"], axis=-1)[: len(sample.meta["words"])]
        return sample.new_outputs({"tags": [self.data.tags[number] for number in best]})


class TagScores(Evaluator):
    """F1 of each tag, and their mean (macro F1)."""

    data: TextData = shared()

    def __enter__(self) -> "TagScores":
        self.counts = {tag: np.zeros(2, int) for tag in self.data.tags}  # found rightly; in the truth and found
        return self

    def update_state(self, sample: Sample) -> None:
        for truth, found in zip(sample.meta["tags"], sample.outputs["tags"], strict=True):
            self.counts[truth] += [truth == found, 1]
            self.counts[found] += [0, 1]

    def result(self) -> dict[str, float]:
        scores = {f"f1/{tag}": float(2 * right / both) for tag, (right, both) in self.counts.items() if both}
        return {"f1": sum(scores.values()) / max(len(scores), 1), **scores}


class TextModelParams(ModelBaseParams, cls=".model:TextModel"):
    """Options of the model."""

    units: int = option(64, "Size of the embedding, and units of the GRU in each direction", low=1)
    dropout: float = option(0.2, "Share of the features of a word that are dropped in training", low=0, high=0.9)


class TextScenario(Scenario):
    """Tags the words of a line."""

    data, model, evaluator = TextData, TextModelParams, TagScores
    train, val = TaggedLines(), TaggedLines()
    processors, post_processors = [Encode()], [Decode()]
    best = "max lav_l0_f1"
    defaults = {
        "trainer.epochs": 6,
        "trainer.lav_every_n": 1,
        "train.bucket_boundaries": [8, 16, 32],
        "val.bucket_boundaries": [8, 16, 32],
    }
