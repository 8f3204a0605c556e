"""Processors of the words."""

import os

import numpy as np

from test.clients.words.params import DecodeParams, EncodeParams, LoadParams, NoiseParams, ScaleParams
from tfaip import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import MappingDataProcessor


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
