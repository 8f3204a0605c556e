"""Params, generator and processors of the words: what data workers import."""

import os
from dataclasses import dataclass, field
from typing import Iterable, List

import numpy as np
from paiargparse import pai_dataclass, pai_meta
from tfaip import DataBaseParams, DataGeneratorParams, ModelBaseParams, PipelineMode, Sample, ScenarioBaseParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor


@pai_dataclass
@dataclass
class WordsDataParams(DataBaseParams):
    features: int = field(default=4, metadata=pai_meta(help="Values per character"))
    codec: List[str] = field(default_factory=lambda: ["a", "b", "c"], metadata=pai_meta(help="Names of the classes"))

    @staticmethod
    def cls():
        from test.clients.words.scenario import WordsData

        return WordsData


@pai_dataclass
@dataclass
class LoadParams(DataProcessorParams):
    extension: str = field(default=".label.txt", metadata=pai_meta(help="Extension of the labels"))

    @staticmethod
    def cls():
        return Load


@pai_dataclass
@dataclass
class ScaleParams(DataProcessorParams):
    factor: float = field(default=0.5, metadata=pai_meta(help="Factor of the features"))

    @staticmethod
    def cls():
        return Scale


@pai_dataclass
@dataclass
class EncodeParams(DataProcessorParams):
    @staticmethod
    def cls():
        return Encode


@pai_dataclass
@dataclass
class NoiseParams(DataProcessorParams):
    stddev: float = field(default=0.1, metadata=pai_meta(help="Noise on the features"))

    @staticmethod
    def cls():
        return Noise


@pai_dataclass
@dataclass
class DecodeParams(DataProcessorParams):
    @staticmethod
    def cls():
        return Decode


@pai_dataclass
@dataclass
class FilesParams(DataGeneratorParams):
    files: List[str] = field(default_factory=list, metadata=pai_meta(help="Files of words", mode="flat"))
    group: int = field(default=2, metadata=pai_meta(help="Words that are read together"))

    @staticmethod
    def cls():
        return Files


@pai_dataclass
@dataclass
class WordsModelParams(ModelBaseParams):
    units: int = field(default=8, metadata=pai_meta(help="Nodes of the hidden layer"))
    dropout: float = field(default=0.0, metadata=pai_meta(help="Dropout after the hidden layer"))

    @staticmethod
    def cls():
        from test.clients.words.scenario import WordsModel

        return WordsModel

    def graph_cls(self):
        from test.clients.words.scenario import WordsGraph

        return WordsGraph


@pai_dataclass
@dataclass
class WordsScenarioParams(ScenarioBaseParams[WordsDataParams, WordsModelParams]):
    pass


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
