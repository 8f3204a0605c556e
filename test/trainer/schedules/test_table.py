"""The values of several schedules at once, against those of each alone and against values by hand."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tfaip.trainer.scheduler.interpolation import Interpolation
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.schedules.instep import ScheduleTable

SCHEDULES = [
    ScheduleParams("linear", {1: 2.0, 3: 1.0, 4: 5.0}),
    ScheduleParams("step", {0: 0.0, 2.5: 1.0}, Interpolation.STEP),
    ScheduleParams("exponential", {0: 1.0, 4: 0.0625}, Interpolation.EXPONENTIAL),
    ScheduleParams("cosine", {1: 0.0, 3: 2.0}, Interpolation.COSINE),
    ScheduleParams("constant", {2: 0.3}),
]


def values(epochs: float) -> list[float]:
    found = ScheduleTable(SCHEDULES).values(np.float32(epochs))
    return [float(value) for value in keras.ops.convert_to_numpy(found)]


@pytest.mark.backend
def test_by_hand() -> None:
    np.testing.assert_allclose(values(0.0), [2.0, 0.0, 1.0, 0.0, 0.3], rtol=1e-6)
    np.testing.assert_allclose(values(2.0), [1.5, 0.0, 0.25, 1.0, 0.3], rtol=1e-6)
    np.testing.assert_allclose(values(1.5), [1.75, 0.0, 0.5**1.5, 1 - np.sqrt(0.5), 0.3], rtol=1e-6)
    np.testing.assert_allclose(values(2.5), [1.25, 1.0, 0.5**2.5, 1 + np.sqrt(0.5), 0.3], rtol=1e-6)
    np.testing.assert_allclose(values(3.5), [3.0, 1.0, 0.5**3.5, 2.0, 0.3], rtol=1e-6)


@pytest.mark.parametrize("epochs", [0, 3, 100])
def test_at_a_point_it_is_exactly_its_value(epochs: int) -> None:
    for schedule, value in zip(SCHEDULES, values(epochs), strict=True):
        if epochs in schedule.points or epochs > max(schedule.points):
            chosen = schedule.points.get(float(epochs), schedule.points[max(schedule.points)])
            assert value == np.float32(chosen)


@pytest.mark.parametrize("epochs", [0.0, 0.7, 2.9, 5.0])
def test_the_values_of_each_alone(epochs: float) -> None:
    np.testing.assert_allclose(values(epochs), [s.value(epochs) for s in SCHEDULES], rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("kind", Interpolation)
def test_extreme_points_give_numbers(kind: Interpolation) -> None:
    points = {0: 1e-20, 1e-40: 1.0, 1: 1e17, 1e9: 2.0}
    table = ScheduleTable([ScheduleParams("a", points, kind), ScheduleParams("b", {0: -1e38, 1: 1e38})])
    for epochs in (0.0, 1e-40, 0.5, 1.0, 2.0, 1e9, 2e9):
        assert np.isfinite(keras.ops.convert_to_numpy(table.values(np.float32(epochs)))).all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"target": ""}, "target is '', expected the dotted path of a value"),
        ({"points": {}}, "points is {}, expected completed epochs=value"),
        ({"points": {-1: 1.0}}, "expected completed epochs=value, with numbers of epochs from 0 to 1e\\+09"),
        ({"points": {0: 1e39, 1: 1.0}}, r"points\[0\] is 1e\+39, expected a value from -1e\+38 to 1e\+38"),
        ({"points": {0: 1e-30, 1: 1e30}, "interpolation": Interpolation.EXPONENTIAL}, "by a factor of at most 1e"),
        ({"points": {0: float("nan")}}, r"points\[0\] is nan, expected a finite number"),
    ],
)
def test_params_that_cannot_be(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScheduleParams(**{"target": "weight_noise.stddev", "points": {0: 1.0}, **fields})  # type: ignore[arg-type]
