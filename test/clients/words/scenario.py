"""Scenario: which word is it? With several models, their vote, and a training per fold."""

import copy
import logging
import os
from collections import Counter
from typing import Any, Callable, Dict, List, Tuple, Type

import numpy as np
import tensorflow as tf

from test.clients.words.params import (
    DecodeParams,
    EncodeParams,
    LoadParams,
    NoiseParams,
    ScaleParams,
    WordsDataParams,
    WordsModelParams,
    WordsScenarioParams,
)
from tfaip import INPUT_PROCESSOR, TARGETS_PROCESSOR, PipelineMode, Sample, TrainerParams
from tfaip.data.data import DataBase
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.evaluator.evaluator import Evaluator
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.predict.multimodelpredictor import MultiModelPredictor
from tfaip.predict.multimodelvoter import MultiModelVoter
from tfaip.scenario.listfile.listfilescenario import ListFileScenario
from tfaip.util.logging import WriteToLogFile
from tfaip.util.multiprocessing.parallelmap import parallel_map
from tfaip.util.tfaipargparse import TFAIPArgumentParser
from tfaip.util.typing import AnyNumpy

logger = logging.getLogger(__name__)


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


class WordsGraph(GraphBase[WordsModelParams]):
    def __init__(self, n_classes, temperature=1.0, **kwargs):
        super(WordsGraph, self).__init__(**kwargs)
        self.n_classes = n_classes
        self.temperature = temperature
        self.hidden = tf.keras.layers.Dense(self._params.units, activation="tanh", name="hidden")
        self.dropout = tf.keras.layers.Dropout(self._params.dropout)
        self.logits = tf.keras.layers.Dense(n_classes, name="logits")

    def build_graph(self, inputs, training=None):
        word = inputs["word"]
        lengths = tf.squeeze(inputs["length"], axis=-1)
        mask = tf.cast(tf.sequence_mask(lengths, tf.shape(word)[1]), "float32")
        features = self.dropout(self.hidden(word), training=training)
        total = tf.reduce_sum(features * tf.expand_dims(mask, axis=-1), axis=1)
        mean = total / tf.cast(inputs["length"], "float32")
        logits = self.logits(mean) / self.temperature
        return {"logits": logits, "prob": tf.nn.softmax(logits), "class": tf.argmax(logits, axis=-1)}


class WordsModel(ModelBase[WordsModelParams]):
    def __init__(self, *args, **kwargs):
        super(WordsModel, self).__init__(*args, **kwargs)
        self.accuracy = tf.keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _best_logging_settings(self) -> Tuple[str, str]:
        return "max", "acc"

    def _loss(self, inputs, targets, outputs) -> Dict[str, tf.Tensor]:
        crossentropy = tf.keras.losses.sparse_categorical_crossentropy(
            targets["label"], outputs["logits"], from_logits=True
        )
        return {"loss": crossentropy, "size": tf.reduce_mean(tf.square(outputs["logits"]), axis=-1)}

    def _loss_weights(self) -> Dict[str, float]:
        return {"loss": 1.0, "size": 0.001}

    def _metric(self, inputs, targets, outputs) -> List:
        return [self.accuracy(targets["label"], outputs["prob"])]

    def _print_evaluate(self, sample: Sample, data, print_fn: Callable[[str], None] = print):
        label: AnyNumpy = np.squeeze(sample.targets["label"])
        print_fn(f"word {data.params.codec[int(label)]} read as {sample.outputs['name']}")


class WordsEvaluator(Evaluator):
    def __init__(self, codec, **kwargs):
        super(WordsEvaluator, self).__init__(**kwargs)
        self.codec = codec
        self.right = 0
        self.total = 0

    def __enter__(self):
        self.right = 0
        self.total = 0
        return self

    def __exit__(self, exc_type, exc_val, exc_tb):
        pass

    def update_state(self, sample: Sample):
        self.total += 1
        self.right += sample.outputs["name"] == self.codec[int(sample.targets["label"][0])]

    def result(self):
        return {"eval_acc": self.right / self.total, "total": self.total}


class WordsVoter(MultiModelVoter):
    """The name that most models read; the votes by name."""

    def vote(self, sample: Sample) -> Sample:
        # One output per model, after its post-processing.
        votes = Counter(output["name"] for output in sample.outputs)
        winner = max(sorted(votes), key=lambda name: votes[name])
        return sample.new_outputs({"name": winner, "votes": dict(votes)})


class WordsMultiPredictor(MultiModelPredictor):
    def create_voter(self, data_params) -> MultiModelVoter:
        return WordsVoter()


class WordsScenario(ListFileScenario[WordsScenarioParams]):
    @classmethod
    def default_trainer_params(cls):
        params = super(WordsScenario, cls).default_trainer_params()
        params.epochs = 3
        params.random_seed = 5
        params.learning_rate.lr = 0.02
        params.gen.setup.train.batch_size = 4
        params.gen.setup.val.batch_size = 4
        params.skip_model_load_test = True
        return params

    @classmethod
    def evaluator_cls(cls) -> Type[Evaluator]:
        return WordsEvaluator

    @classmethod
    def multi_predictor_cls(cls):
        return WordsMultiPredictor

    @classmethod
    def additional_graph_kwargs(cls, data: DataBase, scenario_params: WordsScenarioParams) -> Dict[str, Any]:
        return {"n_classes": len(data.params.codec), "temperature": 0.5}

    @classmethod
    def additional_evaluator_kwargs(cls, data: DataBase, scenario_params: WordsScenarioParams) -> Dict[str, Any]:
        return {"codec": data.params.codec}


def train_fold(params: TrainerParams):
    trainer = WordsScenario.create_trainer(params)
    trainer.train()
    return os.path.join(params.output_dir, params.early_stopping.best_model_name)


def train_folds(params: TrainerParams, n_folds: int):
    words = []
    for path in params.gen.train.lists:
        with open(path) as f:
            words.extend(f.read().split())

    os.makedirs(params.output_dir)
    folds = []
    for i in range(n_folds):
        fold = copy.deepcopy(params)
        fold.output_dir = os.path.join(params.output_dir, f"fold_{i}")
        others = [word for j, word in enumerate(words) if j % n_folds != i]
        fold.gen.train.lists = [write_list(params.output_dir, f"train_{i}", others)]
        fold.gen.val.lists = [write_list(params.output_dir, f"val_{i}", words[i::n_folds])]
        folds.append(fold)
    return list(parallel_map(train_fold, folds, desc="Folds", processes=1))


def write_list(directory, name, words):
    path = os.path.join(directory, name + ".lst")
    with open(path, "w") as f:
        f.write("\n".join(words))
    return path


def main(argv=None):
    default_params = WordsScenario.default_trainer_params()
    parser = TFAIPArgumentParser(description="Train words")
    parser.add_argument("--n_folds", type=int, default=0, help="Train so many models, each without a part of the words")
    parser.add_root_argument("trainer", default_params.__class__, default=default_params)
    args = parser.parse_args(argv)
    if args.n_folds:
        return train_folds(args.trainer, args.n_folds)

    with WriteToLogFile(args.trainer.output_dir, append=False):
        logger.info("Training words with %d units", args.trainer.scenario.model.units)
        return WordsScenario.create_trainer(args.trainer).train()
