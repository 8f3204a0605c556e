"""Generator and processors of the words."""

import os
from typing import Iterable, List

import numpy as np

from test.clients.words.params import DecodeParams, EncodeParams, FilesParams, LoadParams, NoiseParams, ScaleParams
from tfaip import PipelineMode, Sample
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.processor.dataprocessor import MappingDataProcessor


class Files(DataGenerator[FilesParams]):
    def __init__(self, mode: PipelineMode, params: FilesParams):
        super(Files, self).__init__(mode, params)
        self.groups = [params.files[i : i + params.group] for i in range(0, len(params.files), params.group)]

    def __len__(self):
        return len(self.params.files)

    def yields_batches(self) -> bool:
        return True

    def generate(self) -> Iterable[List[Sample]]:
        for group in self.groups:
            yield [Sample(inputs=path, targets=path) for path in group]


class Load(MappingDataProcessor[LoadParams]):
    def apply(self, sample: Sample) -> Sample:
        path = sample.inputs
        meta = {"path": path}
        sample = sample.new_inputs({"word": np.load(path)})
        if self.mode in {PipelineMode.TRAINING, PipelineMode.EVALUATION, PipelineMode.TARGETS}:
            with open(os.path.splitext(path)[0] + self.params.extension) as f:
                sample = sample.new_targets(f.read().strip())
        else:
            sample = sample.new_targets(None)
        return sample.new_meta(meta)


class Scale(MappingDataProcessor[ScaleParams]):
    def apply(self, sample: Sample) -> Sample:
        word = sample.inputs["word"].astype("float32") * self.params.factor
        return sample.new_inputs({"word": word, "length": np.array([len(word)])})


class Encode(MappingDataProcessor[EncodeParams]):
    def __init__(self, *args, **kwargs):
        super(Encode, self).__init__(*args, **kwargs)
        self.codec = {name: i for i, name in enumerate(self.data_params.codec)}

    def apply(self, sample: Sample) -> Sample:
        return sample.new_targets({"label": np.array([self.codec[sample.targets]])})


class Noise(MappingDataProcessor[NoiseParams]):
    def apply(self, sample: Sample) -> Sample:
        inputs = dict(sample.inputs)
        inputs["word"] = inputs["word"] + np.random.normal(0, self.params.stddev, inputs["word"].shape)
        return sample.new_inputs(inputs)


class Decode(MappingDataProcessor[DecodeParams]):
    def apply(self, sample: Sample) -> Sample:
        outputs = dict(sample.outputs)
        outputs["name"] = self.data_params.codec[int(np.argmax(outputs["prob"]))]
        return sample.new_outputs(outputs)
