"""The tiny scenario on points that can only be read one after the other, from three shards."""

from __future__ import annotations

from collections.abc import Iterator

from test.support.tiny.scenario import TinyGenerator, TinyScenario
from tfaip.imports import Generator, Sample, option


class ShardsGenerator(Generator):
    """Points of several tiny data sets."""

    shards: int = option(3, "Number of data sets")
    samples: int = option(10, "Points of each")

    def generate(self) -> Iterator[Sample]:
        for shard in range(self.shards):
            arrays = TinyGenerator(samples=self.samples, seed=shard).load()
            for x, y in zip(arrays.inputs["x"], arrays.targets["y"], strict=True):
                yield Sample(inputs={"x": x}, targets={"y": y})


class ShardsScenario(TinyScenario):
    """Shuffled within a buffer of a few points."""

    train = ShardsGenerator()
    defaults = {"train.shuffle_buffer_size": 8, "train.batch_size": 4, "trainer.samples_per_epoch": 44}
