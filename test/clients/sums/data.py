"""Data of the sums."""

from typing import Iterable, List

import numpy as np
from test.clients.sums.params import SumsDataParams, SumsGeneratorParams
from tfaip import Sample
from tfaip.data.data import DataBase
from tfaip.data.pipeline.datagenerator import DataGenerator
from tensorflow import TensorSpec


class SumsData(DataBase[SumsDataParams]):
    def __init__(self, unit: str, **kwargs):
        super(SumsData, self).__init__(**kwargs)
        self.unit = unit

    def _input_layer_specs(self):
        return {"numbers": TensorSpec([self.params.numbers], dtype="float32")}

    def _target_layer_specs(self):
        return {"sum": TensorSpec([1], dtype="float32")}


class SumsGenerator(DataGenerator[SumsGeneratorParams]):
    def __len__(self):
        return self.params.size

    def yields_batches(self):
        return True

    def generate(self) -> Iterable[List[Sample]]:
        rng = np.random.RandomState(self.params.seed)
        group = []
        for i in range(self.params.size):
            numbers = rng.uniform(-1, 1, self.params.numbers)
            total = numbers.sum() + rng.normal(0, self.params.noise)
            group.append(Sample(inputs={"numbers": numbers}, targets={"sum": [total]}, meta={"i": i}))
            if len(group) == 6:
                yield group
                group = []
        if group:
            yield group
