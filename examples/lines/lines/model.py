"""Convolutions over the columns of a line, the CTC loss, and the best labels."""

from typing import Any

from keras import layers, ops

from lines.scenario import LineData, LineModelParams
from tfaip.imports import GraphBase, ModelBase, ctc_greedy_decode, ctc_loss


class LineGraph(GraphBase[LineModelParams]):
    """Scores of the labels for every second column."""

    def __init__(self, params: LineModelParams, data: LineData, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.convolutions = [layers.Conv1D(n, 5, padding="same", activation="relu") for n in params.filters]
        self.pooling = layers.MaxPooling1D(2, padding="same")
        self.scores = layers.Dense(len(data.alphabet) + 1)

    def build_graph(self, inputs: Any, training: bool | None = None) -> Any:
        x = inputs["img"]
        position = ops.cumsum(ops.ones_like(x[..., :1]), axis=1)  # 1, 2, 3 ...
        mask = ops.cast(position <= ops.cast(inputs["img_len"][:, None], position.dtype), x.dtype)
        for convolution in self.convolutions:
            x = convolution(x) * mask  # the padding of a batch stays 0
        logits = self.scores(self.pooling(x))
        length = (inputs["img_len"] + 1) // 2
        labels, _, score = ctc_greedy_decode(logits, length)
        return {"logits": logits, "length": length, "labels": labels, "score": score}


class LineModel(ModelBase[LineModelParams]):
    """CTC, with the lengths of images and texts."""

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        lengths = targets["labels_len"], outputs["length"]
        return {"ctc": ctc_loss(targets["labels"], outputs["logits"], *lengths)}
