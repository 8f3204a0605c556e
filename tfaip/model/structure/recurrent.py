"""Weights of recurrent layers, gate by gate, and the axes of their outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import layers

from tfaip.backend.keras_private.layers import ConvLSTMCell
from tfaip.backend.keras_private.symbolic import SymbolicCall
from tfaip.model.gates import gate_names
from tfaip.model.structure.axis import Dimension, Unknown, joined, product
from tfaip.model.structure.recording import NOT_FOLLOWED, WeightRecord
from tfaip.model.structure.tensors import TensorAxes, TensorAxis, broadcast
from tfaip.model.structure.tracing import FlowRule, Tracer, keras_tensors, output_shape


def _declare(record: WeightRecord, cell: Any) -> None:
    """Declare kernel, recurrent kernel and bias of a cell: their last axis is that of the units, once for each gate.

    The bias of a GRU with `reset_after` has two rows, one for each kernel; they are never more or fewer.
    """
    gates = len(gate_names(cell))
    recurrent = record.declare(cell.recurrent_kernel, others=range(len(cell.recurrent_kernel.shape) - 1))
    rank = len(cell.kernel.shape)
    kernel = record.declare(cell.kernel, inputs=[rank - 2], others=range(rank - 2))
    if not kernel or not recurrent:
        return
    gated = product([Dimension(f"{gates} gates", gates, is_fixed=True), recurrent[-2]]) if gates > 1 else recurrent[-2]
    for variable in (cell.kernel, cell.recurrent_kernel, cell.bias):
        record.equate(variable, -1, gated)


def _run_cell(tracer: Tracer, cell: Any, inputs: TensorAxis) -> tuple[TensorAxis, list[TensorAxis]]:
    """Return the last axes of the outputs and of the states of a cell."""
    if isinstance(cell, layers.StackedRNNCells):
        states: list[TensorAxis] = []
        for inner in cell.cells:
            inputs, more = _run_cell(tracer, inner, inputs)
            states.extend(more)
        return inputs, states
    if isinstance(cell, (layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell)):
        tracer.record.follow(cell.kernel, -2, inputs, is_input=True)
        units = tracer.record.axes(cell.recurrent_kernel)[-2]
        return units, [units] * len(keras.tree.flatten(cell.state_size))
    return _run_own_cell(tracer, cell, inputs)


def _run_own_cell(tracer: Tracer, cell: Any, inputs: TensorAxis) -> tuple[TensorAxis, list[TensorAxis]]:
    """Follow the code of a cell that is not one of Keras."""
    if inputs is None:
        return None, []
    name = tracer.record.layer_name(cell)
    step = tracer.new_tensor((None, inputs), (None, inputs.size))
    sizes = keras.tree.flatten(cell.state_size)
    before = [Dimension(f"state {name}/{i}", size) for i, size in enumerate(sizes)]
    states = [tracer.new_tensor((None, axis), (None, axis.size)) for axis in before]
    output, *after = tracer.call_inside(cell, step, states)
    for old, new in zip(before, after, strict=True):
        if new[-1] is not None:
            tracer.bindings.unify(new[-1], old)
    return output[-1], list(before)


def _rnn(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    sequence, *initial = keras_tensors((call.args, _without_masks(call)))
    shapes = [tuple(output.shape) for output in call.outputs]
    return _outputs(tracer, call.operation, sequence, initial, shapes)


def _outputs(
    tracer: Tracer, layer: Any, sequence: Any, initial: Sequence[Any], shapes: Sequence[Any]
) -> list[TensorAxes]:
    """Return the axes of the outputs of a recurrent layer, and of its states after them."""
    axes = tracer.axes(sequence)
    channel = 2 if getattr(layer, "data_format", None) == "channels_first" else -1
    output, states = _run_cell(tracer, layer.cell, axes[channel])
    for tensor, state in zip(initial, states, strict=False):
        given = tracer.axes(tensor)[-1]
        if given is not None and state is not None and given.size == state.size:
            tracer.bindings.unify(given, state)
    # With a batch alone, or with the time of the input.
    lasts = zip(shapes, [output, *states], strict=False)
    return [(*axes[: len(shape) - 1], last) for shape, last in lasts]


def _without_masks(call: SymbolicCall) -> dict[str, Any]:
    return {name: value for name, value in call.kwargs.items() if name not in ("mask", "training")}


def _conv_lstm(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    axes = tracer.input_axes(call)
    is_first = layer.data_format == "channels_first"
    tracer.record.follow(layer.cell.kernel, -2, axes[2 if is_first else -1], is_input=True)
    units = tracer.record.axes(layer.cell.recurrent_kernel)[-2]
    name = f"positions {tracer.name_call(call)}"
    result = []
    for place, output in enumerate(call.outputs):
        shape = tuple(output.shape)
        channel = len(shape) - 1
        if is_first:
            channel = 2 if layer.return_sequences and place == 0 else 1
        positions = [
            None if size is None else Dimension(f"{name}/{i - len(shape)}", size) for i, size in enumerate(shape)
        ]
        result.append((None, *positions[1:channel], units, *positions[channel + 1 :]))
    return result


def _bidirectional(tracer: Tracer, call: SymbolicCall) -> list[TensorAxes]:
    layer = call.operation
    sequence, *initial = keras_tensors((call.args, _without_masks(call)))
    half = len(initial) // 2
    states = (len(call.outputs) - (2 if layer.merge_mode is None else 1)) // 2
    shape = output_shape(call)
    state_shapes = [tuple(output.shape) for output in call.outputs[len(call.outputs) - 2 * states :]]
    both = []
    for i, inner in enumerate((layer.forward_layer, layer.backward_layer)):
        shapes = [shape, *state_shapes[i * states : (i + 1) * states]]
        both.append(_outputs(tracer, inner, sequence, initial[i * half : (i + 1) * half], shapes))
    (forward, *forward_states), (backward, *backward_states) = both
    merged = _merged(tracer, layer.merge_mode, forward, backward, shape)
    return [*merged, *forward_states, *backward_states]


def _merged(
    tracer: Tracer, mode: str | None, forward: TensorAxes, backward: TensorAxes, shape: Sequence[int | None]
) -> list[TensorAxes]:
    if mode is None:
        return [forward, backward]
    if mode != "concat":
        return [broadcast(tracer.bindings, [forward, backward], tuple(shape))]
    first, second = forward[-1], backward[-1]
    if first is None or second is None:
        size = shape[-1]
        return [(*forward[:-1], None if size is None else Unknown(size, NOT_FOLLOWED))]
    return [(*forward[:-1], joined([first, second]))]


WEIGHT_RULES: dict[type, Callable[[WeightRecord, Any], None]] = dict.fromkeys(
    (layers.LSTMCell, layers.GRUCell, layers.SimpleRNNCell, ConvLSTMCell), _declare
)

LAYER_RULES: dict[type, FlowRule] = {
    **dict.fromkeys((layers.RNN, layers.LSTM, layers.GRU, layers.SimpleRNN), _rnn),
    **dict.fromkeys((layers.ConvLSTM1D, layers.ConvLSTM2D, layers.ConvLSTM3D), _conv_lstm),
    layers.Bidirectional: _bidirectional,
}
