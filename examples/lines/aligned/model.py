"""Two losses of the same outputs: CTC, and the cross-entropy of each frame with its aligned label."""

from typing import Any

from keras import losses, ops

from lines.model import LineModel


class AlignedModel(LineModel):
    """Losses `ctc` and `frames`; `loss_weights` chooses."""

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> Any:
        return {**super()._loss(inputs, targets, outputs), "frames": self._frame_loss(targets, outputs)}

    def _frame_loss(self, targets: Any, outputs: Any) -> Any:
        logits, length = outputs["logits"], outputs["length"]
        # As the model: a label for every second column. The labels of a pair are equal but for linear alignments.
        frames = ops.cast(targets["frames"], logits.dtype)[..., None]
        frames = ops.cast(ops.max_pool(frames, 2, 2, padding="same")[..., 0], "int32")
        loss = losses.sparse_categorical_crossentropy(frames, logits, from_logits=True)
        position = ops.cumsum(ops.ones_like(loss), axis=1)
        mask = ops.cast(position <= ops.cast(length, loss.dtype), loss.dtype)
        return ops.sum(loss * mask, axis=1) / ops.cast(length[:, 0], loss.dtype)
