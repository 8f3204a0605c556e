"""Data of the words."""

from typing import Dict

import tensorflow as tf

from test.clients.words.params import DecodeParams, EncodeParams, LoadParams, NoiseParams, ScaleParams, WordsDataParams
from tfaip import INPUT_PROCESSOR, TARGETS_PROCESSOR, PipelineMode
from tfaip.data.data import DataBase
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams


class WordsData(DataBase[WordsDataParams]):
    @classmethod
    def default_params(cls) -> WordsDataParams:
        params = super(WordsData, cls).default_params()
        params.pre_proc = SequentialProcessorPipelineParams(
            run_parallel=False,
            processors=[
                LoadParams(),
                ScaleParams(modes=INPUT_PROCESSOR),
                EncodeParams(modes=TARGETS_PROCESSOR),
                NoiseParams(modes={PipelineMode.TRAINING}),
            ],
        )
        params.post_proc = SequentialProcessorPipelineParams(run_parallel=False, processors=[DecodeParams()])
        return params

    def _input_layer_specs(self) -> Dict[str, tf.TensorSpec]:
        return {
            "word": tf.TensorSpec([None, self.params.features], dtype="float32"),
            "length": tf.TensorSpec([1], dtype="int32"),
        }

    def _target_layer_specs(self) -> Dict[str, tf.TensorSpec]:
        return {"label": tf.TensorSpec([1], dtype="int32")}

    def _padding_values(self) -> Dict[str, float]:
        return {"word": 0}
