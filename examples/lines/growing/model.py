"""Bidirectional LSTMs over the columns of a line."""

from typing import Any

from keras import layers, ops

from growing.scenario import GrowingModelParams
from lines.scenario import LineData
from tfaip.imports import GraphBase, ctc_greedy_decode


class GrowingGraph(GraphBase[GrowingModelParams]):
    """Scores of the labels for every second column."""

    def __init__(self, params: GrowingModelParams, data: LineData, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.pooling = layers.AveragePooling1D(2, padding="same")
        self.recurrent = [
            layers.Bidirectional(layers.LSTM(params.units, return_sequences=True)) for _ in range(params.num_layers)
        ]
        self.scores = layers.Dense(len(data.alphabet) + 1)

    def build_graph(self, inputs: Any, training: bool | None = None) -> Any:
        x = self.pooling(inputs["img"])
        length = (inputs["img_len"] + 1) // 2
        position = ops.cumsum(ops.ones_like(x[..., 0]), axis=1)  # 1, 2, 3 ...
        mask = position <= ops.cast(length, position.dtype)
        for layer in self.recurrent:
            x = layer(x, mask=mask)
        logits = self.scores(x)
        labels, _, score = ctc_greedy_decode(logits, length)
        return {"logits": logits, "length": length, "labels": labels, "score": score}
