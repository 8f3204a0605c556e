"""Which epoch is the best."""

from __future__ import annotations

import math

import keras
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from test.trainer.line import LineScenario, line_params
from tfaip.errors import UsageError
from tfaip.trainer.best import BestModel, EarlyStoppingParams, EarlyStoppingStatus
from tfaip.trainer.history import EpochRecord, History

LOGGED = ["loss", "acc", "loss/mean_epoch"]


def history(name: str, *values: float) -> History:
    return History({epoch: EpochRecord(0.1, {name: value}) for epoch, value in enumerate(values, 1)})


def test_the_validation_value_is_monitored_if_there_is_one() -> None:
    assert BestModel.of(("max", "acc"), True, LOGGED) == BestModel("max", "val_acc")
    assert BestModel.of(("min", "loss/mean_epoch"), False, LOGGED) == BestModel("min", "loss/mean_epoch")
    unknown = r"follows 'val_acc' .*, which is not logged; did you mean acc\? Logged values: acc, loss"
    with pytest.raises(UsageError, match=unknown):
        BestModel.of(("max", "val_acc"), True, LOGGED)


def test_an_epoch_is_best_when_it_is_the_first_with_the_best_value() -> None:
    best = BestModel("max", "val_acc")
    values = [0.5, 0.7, 0.7, 0.9, float("nan"), 0.8]
    found = [best.is_best(history("val_acc", *values[:epoch]), epoch) for epoch in range(1, len(values) + 1)]
    assert found == [True, True, False, True, False, False]


def status(values, mode="max", **kwargs):
    return EarlyStoppingParams(**kwargs).status(dict(enumerate(values, start=1)), mode)


FLAT, NAN, INF = [0.5] * 10, math.nan, math.inf
STOPS = {
    "off by default": (FLAT * 10, {}, None),
    "the first epoch counts": (FLAT, {"n_to_go": 4}, 4),
    # 1 at the best in epoch 1, 2 in epoch 2, nothing in epoch 3, 3 in epoch 4.
    "every second epoch": (FLAT, {"n_to_go": 3, "frequency": 2}, 4),
    "not finite is no improvement": ([0.5, NAN, INF, NAN], {"n_to_go": 3}, 3),
    "goal": ([0.5, 0.98, 0.99, 0.995], {"n_to_go": 100, "upper_threshold": 0.99}, 3),
    "goal without n_to_go": ([0.5, 1.0, 1.0], {"upper_threshold": 0.9}, 2),
    "the count begins": ([0.4, 0.4, 0.4, 0.6, 0.6, 0.6], {"n_to_go": 3, "lower_threshold": 0.5}, 6),
}


@pytest.mark.parametrize("name", STOPS)
def test_stops(name):
    values, fields, expected = STOPS[name]
    assert status(values, **fields).stops_after == expected


def test_best_value_and_counter_epoch_by_epoch():
    values = [0.3, 0.5, 0.4, math.nan, 0.6]
    seen = [status(values[:epoch], n_to_go=9) for epoch in range(6)]
    assert [s.current for s in seen] == [None, 0.3, 0.5, 0.5, 0.5, 0.6]
    assert [s.n for s in seen] == [0, 1, 1, 2, 3, 1]
    assert status(values, "min").current == 0.3
    # The counter stays where it stopped the training.
    assert status([0.5] * 9, n_to_go=3) == EarlyStoppingStatus(0.5, 3, 3)


@pytest.mark.parametrize("limit", [0.9, 0.1])
def test_a_threshold_is_reached_exactly_in_float32_and_in_float64(limit):
    for value in (float(np.float32(limit)), limit):
        # Counting begins when the other one is reached: the second value is the first that counts.
        for values, fields, expected in [
            ([0.05, value], {"upper_threshold": limit}, 2),
            ([0.99, value], {"mode": "min", "lower_threshold": limit}, 2),
            ([0.05, value, 0.05], {"n_to_go": 2, "lower_threshold": limit}, 3),
            ([0.99, value, 0.99], {"mode": "min", "n_to_go": 2, "upper_threshold": limit}, 3),
        ]:
            assert status(values, **fields).stops_after == expected
    below = float(np.nextafter(np.float32(limit), np.float32(0)))
    assert status([below], upper_threshold=limit).stops_after is None


def test_earlier_epochs_are_compared_but_not_counted():
    params = EarlyStoppingParams(n_to_go=3)
    values = dict(enumerate([0.9, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6], start=1))
    assert params.status(values, "max", counted_from=5) == EarlyStoppingStatus(0.9, 3, 7)
    assert params.status({**values, 6: 0.95}, "max", counted_from=5) == EarlyStoppingStatus(0.95, 2, None)


def reference(values, mode, n_to_go, frequency, lower_threshold, upper_threshold):
    """The epoch after which to stop, read off the description, epoch by epoch, without a counter."""
    if mode == "min":
        values = {epoch: -value for epoch, value in values.items()}
        lower_threshold, upper_threshold = (
            None if threshold is None else -threshold for threshold in (upper_threshold, lower_threshold)
        )
    for now in sorted(values):
        seen = {epoch: values[epoch] for epoch in sorted(values) if epoch <= now}
        finite = {epoch: value for epoch, value in seen.items() if math.isfinite(value)}
        if upper_threshold is not None and now in finite and finite[now] >= upper_threshold:
            return now
        reached = [epoch for epoch in finite if lower_threshold is None or finite[epoch] >= lower_threshold]
        if n_to_go == -1 or (lower_threshold is not None and not reached):
            continue
        best_epoch = min((e for e in finite if finite[e] == max(finite.values())), default=None)
        without_a_new_best = [e for e in seen if e % frequency == 0 and (best_epoch is None or e > best_epoch)]
        if len(without_a_new_best) + (best_epoch is not None) >= n_to_go:
            return now
    return None


VALUES = st.dictionaries(
    st.integers(1, 30), st.sampled_from([-2, -1, -0.5, 0, 0.5, 1, 2, math.nan, math.inf, -math.inf]), max_size=30
)
THRESHOLD = st.none() | st.sampled_from([-1.5, -1, -0.5, 0, 0.5, 1, 1.5])


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    values=VALUES,
    mode=st.sampled_from(["min", "max"]),
    n_to_go=st.sampled_from([-1, 1, 2, 3, 5]),
    frequency=st.integers(1, 4),
    thresholds=st.tuples(THRESHOLD, THRESHOLD).filter(lambda pair: None in pair or pair[0] < pair[1]),
)
def test_every_stop_is_that_of_the_description(values, mode, n_to_go, frequency, thresholds):
    fields = {"n_to_go": n_to_go, "frequency": frequency}
    fields |= {"lower_threshold": thresholds[0], "upper_threshold": thresholds[1]}
    assert EarlyStoppingParams(**fields).status(values, mode).stops_after == reference(values, mode, **fields)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_to_go": 0}, "n_to_go is 0, expected at least 1, or -1 for off"),
        ({"frequency": 0}, "frequency is 0, expected at least 1"),
        ({"lower_threshold": 1.0, "upper_threshold": 0.5}, "lower_threshold is 1.0, expected a number below upper"),
        ({"lower_threshold": math.nan}, "lower_threshold is nan, expected a finite number"),
    ],
)
def test_impossible_values_name_the_field(kwargs, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        EarlyStoppingParams(**kwargs)


@pytest.mark.guard
def test_the_status_of_early_stopping_can_be_read_and_survives_a_resume(tmp_path):
    class Seen(keras.callbacks.Callback):
        def __init__(self, of):
            super().__init__()
            self.of, self.n = of, []

        def on_train_begin(self, logs=None):
            self.n.append(self.of.n)

        def on_epoch_end(self, epoch, logs=None):
            self.n.append(self.of.n)
            assert (self.of.mode, self.of.monitor) == ("min", "val_loss/mean_epoch")
            assert self.of.current == logs["val_loss"]

    counted = []
    for epochs, restore in ((2, False), (9, True)):
        run = line_params([1.0], [1.0], tmp_path / "run", lr=0.0, epochs=epochs, export_best=True)
        run.early_stopping = EarlyStoppingParams(n_to_go=5, best_model_name="finest")
        trainer = LineScenario.create_trainer(run, restore=restore)
        seen = Seen(trainer.params.early_stopping)
        trainer.train([seen])
        counted.append(seen.n)
        assert trainer.early_stopping.n == seen.n[-1]
        assert (run.early_stopping.monitor, run.early_stopping.n) == (None, 0)
    assert counted == [[0, 1, 2], [2, 3, 4, 5]]
    assert (tmp_path / "run" / "finest" / "weights.safetensors").is_file()
    assert not (tmp_path / "run" / "best").exists()
