"""The same numbers on one device, on two, on both backends, and with several batches per update."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from test.support.commands import finish_command, start_module
from test.trainer.optimizer.devices import CASES, PATHS

# They share trainings on both backends.
pytestmark = pytest.mark.slow

Found = Mapping[tuple[str, str, str], dict[str, np.ndarray]]

# Rounding of float32 over 9 batches; what is compared is of the order of 1.
TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What `devices` writes: (backend, devices, case) -> arrays by name."""
    directory = tmp_path_factory.mktemp("devices")
    processes = {
        backend: start_module("test.trainer.optimizer.devices", directory / backend, env={"KERAS_BACKEND": backend})
        for backend in ("tensorflow", "jax")
    }
    for process in processes.values():
        result = finish_command(process)
        assert result.rc == 0, str(result)
    return {
        (backend, *key): arrays for backend in processes for key, arrays in read(directory / f"{backend}.npz").items()
    }


def read(path: Path) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    found: dict[tuple[str, str], dict[str, np.ndarray]] = {}
    for key, array in np.load(path).items():
        devices, case, name = key.split("|")
        found.setdefault((devices, case), {})[name] = array
    return found


def assert_close(
    ours: dict[str, np.ndarray],
    theirs: dict[str, np.ndarray],
    names: list[str] | None = None,
    tolerance: float = TOLERANCE,
) -> None:
    for name in names or sorted(ours):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("case", CASES)
def test_two_devices_give_what_one_gives(found: Found, backend: str, case: str) -> None:
    assert_close(found[backend, "two", case], found[backend, "one", case])


@pytest.mark.parametrize("case", [case for case in CASES if case != "noise"])
def test_both_backends_give_the_same(found: Found, case: str) -> None:
    # Noise has the same mean and deviation on both (test_update), but the generators differ.
    names = [name for name in found["jax", "one", case] if not name.startswith(("batches_", "part_"))]
    # The kernel of `FusedAdam` computes 1 - beta_2 in float32: after 3 updates with a rate of 0.1 weights differ by up
    # to 3 * 0.1 * 6.5e-6, and sums of gradients, which follow from them, by 20 times as much.
    tolerance = 4e-5 if case == "adam" else TOLERANCE
    assert_close(found["tensorflow", "one", case], found["jax", "one", case], names, tolerance)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("devices", ["one", "two"])
def test_three_batches_per_update_are_one_large_batch(found: Found, backend: str, devices: str) -> None:
    names = [*PATHS, *(f"average/{path}" for path in PATHS)]
    assert_close(found[backend, devices, "accumulation"], found[backend, "one", "large batch"], names)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize("devices", ["one", "two"])
def test_what_was_counted(found: Found, backend: str, devices: str) -> None:
    def counts(case: str) -> tuple[int, int]:
        arrays = found[backend, devices, case]
        return int(arrays["updates"]), int(arrays["moments"])

    assert counts("plain") == (9, 9)
    assert counts("remainder") == (4, 4)  # of 9 batches, one waits
    assert counts("adam") == counts("sgd") == (4, 3)  # the bad batch has cost an update
    assert counts("stopped") == (9, 4)


@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_the_noise_is_there(found: Found, backend: str) -> None:
    noisy, plain = (found[backend, "two", case]["hidden/kernel"] for case in ("noise", "plain"))
    assert np.abs(noisy - plain).max() > 0.01
