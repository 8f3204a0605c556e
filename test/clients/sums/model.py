"""Layers, losses and metrics of the sums."""

import tensorflow as tf
from test.clients.sums.params import SumsModelParams
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase

keras = tf.keras


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

    def _print_evaluate(self, sample, data, print_fn=print):
        print_fn(f"sum {sample.targets['sum'][0]:.2f} read as {sample.outputs['sum'][0]:.2f} {self.unit}")
