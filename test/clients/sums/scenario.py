"""Scenario: the sum of some numbers, trained with noise first, then a second time without."""

import json
import logging
import os
from typing import Iterable

import numpy as np
import tensorflow as tf
from paiargparse import PAIArgumentParser
from test.clients.sums.params import (
    SumsDataParams,
    SumsGeneratorParams,
    SumsModelParams,
    SumsPipelineParams,
    SumsScenarioParams,
    SumsTrainerParams,
)
from tfaip import Sample
from tfaip.data.data import DataBase
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.trainer.callbacks.logger_callback import LoggerCallback
from tfaip.trainer.callbacks.tensor_board_callback import TensorBoardCallback
from tfaip.trainer.callbacks.train_params_logger import TrainerCheckpointsCallback
from tfaip.trainer.scheduler import Constant
from tfaip.trainer.trainer import Trainer

logger = logging.getLogger(__name__)
keras = tf.keras


class SumsData(DataBase[SumsDataParams]):
    def __init__(self, unit: str, **kwargs):
        super(SumsData, self).__init__(**kwargs)
        self.unit = unit

    def _input_layer_specs(self):
        return {"numbers": tf.TensorSpec([self.params.numbers], dtype="float32")}

    def _target_layer_specs(self):
        return {"sum": tf.TensorSpec([1], dtype="float32")}


class SumsGenerator(DataGenerator[SumsGeneratorParams]):
    def __len__(self):
        return self.params.size

    def generate(self) -> Iterable[Sample]:
        rng = np.random.RandomState(self.params.seed)
        for i in range(self.params.size):
            numbers = rng.uniform(-1, 1, self.params.numbers)
            total = numbers.sum() + rng.normal(0, self.params.noise)
            yield Sample(inputs={"numbers": numbers}, targets={"sum": [total]}, meta={"i": i})


class SumsGraph(GraphBase[SumsModelParams]):
    def __init__(self, params: SumsModelParams, name="sums", **kwargs):
        super(SumsGraph, self).__init__(params, name=name, **kwargs)
        self.hidden = keras.layers.Dense(params.units, name="hidden")
        self.total = keras.layers.Dense(1, name="total")

    def build_graph(self, inputs, training=None):
        total = self.total(self.hidden(inputs["numbers"]))
        if self._params.offset is not None:
            total = total + self._params.offset
        return {"sum": total}


class SumsModel(ModelBase[SumsModelParams]):
    def __init__(self, unit, **kwargs):
        super(SumsModel, self).__init__(**kwargs)
        self.unit = unit
        self.error = keras.metrics.MeanAbsoluteError(name="mae")

    def _loss(self, inputs, targets, outputs):
        return {"mse": keras.losses.mse(targets["sum"], outputs["sum"])}

    def _metric(self, inputs, targets, outputs):
        return [self.error(targets["sum"], outputs["sum"])]

    def _best_logging_settings(self):
        return "min", "mae"


class EpochsLogger(LoggerCallback):
    def __init__(self, *args, **kwargs):
        super(EpochsLogger, self).__init__(*args, **kwargs)
        self.epochs = {}

    def on_epoch_end(self, epoch, logs=None):
        super(EpochsLogger, self).on_epoch_end(epoch, logs)
        self.epochs[epoch] = dict(logs)


class SumsTrainer(Trainer[SumsTrainerParams]):
    def __init__(self, params, scenario, restore=False):
        super(SumsTrainer, self).__init__(params, scenario, restore)
        self.epochs_logger = EpochsLogger()
        self.kinds = []
        self.set_up = 0

    def setup_data(self):
        self.set_up += 1
        super(SumsTrainer, self).setup_data()

    def setup_callbacks(self, optimizer, callbacks=None):
        callbacks = super(SumsTrainer, self).setup_callbacks(optimizer, callbacks)
        callbacks.append(self.epochs_logger)
        kinds = [LoggerCallback, TensorBoardCallback, TrainerCheckpointsCallback]
        self.kinds = [kind.__name__ for kind in kinds if any(isinstance(callback, kind) for callback in callbacks)]
        return callbacks

    def fit(self):
        logs = super(SumsTrainer, self).fit()
        if self._params.clean_epochs > 0:
            logger.info("Training again, without noise")
            self._params.gen.train.noise = 0
            self._params.epochs = self._params.clean_epochs
            self._params.current_epoch = 0
            self.setup_data()
            self.setup_steps_per_epoch()
            logs = super(SumsTrainer, self).fit()
        return logs


class SumsScenario(ScenarioBase[SumsScenarioParams, SumsPipelineParams]):
    @classmethod
    def trainer_cls(cls):
        return SumsTrainer

    @classmethod
    def default_trainer_params(cls):
        params = super(SumsScenario, cls).default_trainer_params()
        params.epochs = 2
        params.random_seed = 7
        params.learning_rate = Constant(lr=0.05)
        params.gen.setup.train.batch_size = 4
        params.gen.setup.val.batch_size = 4
        params.gen.train.noise = 0.2
        params.gen.val = SumsGeneratorParams(size=8, seed=2)
        params.skip_model_load_test = True
        return params

    @classmethod
    def static_data_kwargs(cls, scenario_params):
        return {"unit": "apples" if scenario_params.scale == 1 else "pears"}

    @classmethod
    def additional_model_kwargs(cls, data, scenario_params):
        return {"unit": data.unit}


def train(argv=None):
    params = SumsScenario.default_trainer_params()
    parser = PAIArgumentParser()
    parser.add_root_argument("trainer", params.__class__, default=params)
    trainer = SumsScenario.create_trainer(parser.parse_args(argv).trainer)
    trainer.train()
    return trainer


def resume(directory, clean_epochs):
    with open(os.path.join(directory, "trainer_params.json")) as f:
        params = Trainer.parse_trainer_params(json.load(f))
    params.clean_epochs = clean_epochs
    trainer = SumsScenario.create_trainer(params, restore=True)
    trainer.train()
    return trainer
