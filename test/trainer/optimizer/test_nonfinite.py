"""Updates that are not finite: skipped, or the end of the training."""

from __future__ import annotations

import re

import pytest

from test.trainer.line import LineScenario, line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.trainer.loop import TrainingDiverged
from tfaip.trainer.optimizer import AdamOptimizer, SGDOptimizer
from tfaip.trainer.optimizer.update import AverageRate

NAN, INF = float("nan"), float("inf")
DATA = " (not finite in the data of number 1)"


def stopped(params):
    """Message of a training that ends early, and the weight that it leaves."""
    trainer = LineScenario.create_trainer(params)
    with pytest.raises(TrainingDiverged) as error:
        trainer.train()
    return str(error.value), weight(trainer)


SKIPS_TWO = {"optimizer": SGDOptimizer(skip_nonfinite=2)}


# The gradient is x: the weight moves by -1 per update.
@pytest.mark.parametrize(
    ("x", "fields", "place", "left"),
    [
        ([1, 1, NAN, 1, 1, 1], {"steps_per_execution": 1}, f"in batch 3 of epoch 1{DATA};", -2),
        ([1, 1, INF, 1, 1, 1], {"steps_per_execution": 4}, f"in batch 3 of epoch 1{DATA};", -2),
        pytest.param(
            *([1, 1, -INF, 1, 1, 1], {"steps_per_execution": 16}, f"in batch 3 of epoch 1{DATA};", -2),
            marks=pytest.mark.backend,
        ),
        ([1, 3, 1, NAN, 1, 1], {"train_accum_steps": 2}, f"in batches 3 to 4 of epoch 1{DATA};", -2),
        ([1, 1, NAN, 1, NAN, INF, NAN, 1], SKIPS_TWO, f"in 3 updates in a row, from batch 5 of epoch 1{DATA};", -3),
        ([NAN, 1, 1, NAN, NAN], SKIPS_TWO, "in 3 updates in a row, from the last batches of epoch 1;", -2),
        # The gradient of an infinite loss is infinite, which clip_value would make 1.5.
        ([1, INF], {"optimizer": SGDOptimizer(clip_value=1.5)}, f"in batch 2 of epoch 1{DATA};", -1),
    ],
)
def test_too_many_updates_that_are_not_finite_end_the_training(x, fields, place, left):
    message, weight = stopped(line_params(x, epochs=2, **fields))
    assert weight == left
    assert message.startswith(f"the loss or its gradients were not finite {place} no weight has changed")
    assert "--optimizer.skip_nonfinite" in message


@pytest.mark.backend
def test_as_many_in_a_row_as_are_tolerated_do_not_and_the_latch_stays():
    training = Training(SGDOptimizer(skip_nonfinite=2), {"w": 0.0})
    for gradient in (1, NAN, NAN, 1, NAN, NAN, 1):
        training.step(gradient)
    assert (training.values(), training.optimizer.stopped_at()) == ([-3.0], None)
    for gradient in (NAN, NAN, NAN, 1, NAN, 1, 1):
        training.step(gradient)
    assert (training.values(), training.optimizer.stopped_at()) == ([-3.0], (7, 3))
    training = Training(SGDOptimizer(skip_nonfinite=10**12), {"w": 0.0})  # more than 32 bits
    assert (training.step(NAN), training.step(1)) == ([0.0], [-1.0])


def test_the_batch_is_that_of_its_epoch_also_after_a_resume(tmp_path):
    params = line_params([1, 1, 1], output_dir=tmp_path, epochs=2)
    train(params)
    params.epochs, params.gen.train.x = 4, [1, NAN, 1]
    trainer = LineScenario.create_trainer(params, restore=True)
    with pytest.raises(TrainingDiverged, match=re.escape(f"in batch 2 of epoch 3{DATA};")):
        trainer.train()
    assert weight(trainer) == -7.0


def test_no_checkpoint_is_written_of_what_was_stopped(tmp_path):
    stopped(line_params([1, 1, NAN, 1], output_dir=tmp_path, checkpoint_save_freq="1", steps_per_execution=1))
    names = sorted(path.name for path in (tmp_path / "checkpoint").glob("epoch_*"))
    assert names == ["epoch_0000_step_000001", "epoch_0000_step_000002"]


@pytest.mark.backend
def test_a_skipped_update_is_as_if_it_had_not_been():
    def params(x, optimizer):
        return line_params(x, epochs=2, lr=0.1, optimizer=optimizer, steps_per_execution=16)

    with_bad = train(params([1, NAN, 2, INF, 3], AdamOptimizer(skip_nonfinite=1)))
    without = train(params([1, 2, 3], AdamOptimizer()))
    assert weight(with_bad) == weight(without) != 0


@pytest.mark.backend
@pytest.mark.parametrize("clip", [{}, {"clip_value": 1.0}, {"clip_norm": 1.0}, {"clip_global_norm": 1.0}])
def test_no_clip_hides_a_gradient_that_is_not_finite(clip):
    for bad in (NAN, -INF):
        training = Training(SGDOptimizer(skip_nonfinite=1, **clip), {"a": [2.0, 2.0], "b": 1.0})
        assert training.step([bad, 0.5], 0.5) == [[2.0, 2.0], 1.0]
        assert training.step([0.25, 0.25], 0.5) == [[1.75, 1.75], 0.5]


@pytest.mark.backend
def test_nothing_of_the_optimizer_moves_with_a_skipped_update():
    params = AdamOptimizer(skip_nonfinite=3, weight_decay=0.1, clip_norm=1.0)
    training = Training(params, {"w": [1.0, 2.0]}, average_rate=AverageRate(0.5, ramp=False))
    training.step([0.5, -1.0])
    before = training.state()
    training.step([NAN, 1.0])
    after = training.state()
    counters = {"iteration", "updates_before_moments", "nonfinite_in_a_row", "nonfinite_first_batch"}
    assert {name for name in before if before[name] != after[name]} == counters
    assert int(training.optimizer.iterations) == 1
    assert training.optimizer.updates == 2
