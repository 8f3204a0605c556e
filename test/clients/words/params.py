"""Params of the words."""

from dataclasses import dataclass, field
from typing import List

from paiargparse import pai_dataclass, pai_meta
from tfaip import DataBaseParams, DataGeneratorParams, ModelBaseParams, ScenarioBaseParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams


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
        from test.clients.words.parts import Load

        return Load


@pai_dataclass
@dataclass
class ScaleParams(DataProcessorParams):
    factor: float = field(default=0.5, metadata=pai_meta(help="Factor of the features"))

    @staticmethod
    def cls():
        from test.clients.words.parts import Scale

        return Scale


@pai_dataclass
@dataclass
class EncodeParams(DataProcessorParams):
    @staticmethod
    def cls():
        from test.clients.words.parts import Encode

        return Encode


@pai_dataclass
@dataclass
class NoiseParams(DataProcessorParams):
    stddev: float = field(default=0.1, metadata=pai_meta(help="Noise on the features"))

    @staticmethod
    def cls():
        from test.clients.words.parts import Noise

        return Noise


@pai_dataclass
@dataclass
class DecodeParams(DataProcessorParams):
    @staticmethod
    def cls():
        from test.clients.words.parts import Decode

        return Decode


@pai_dataclass
@dataclass
class FilesParams(DataGeneratorParams):
    files: List[str] = field(default_factory=list, metadata=pai_meta(help="Files of words", mode="flat"))
    group: int = field(default=2, metadata=pai_meta(help="Words that are read together"))

    @staticmethod
    def cls():
        from test.clients.words.parts import Files

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
    def __post_init__(self):
        super().__post_init__()
