"""Names of JAX and TensorFlow that are not documented: they exist, and do what we need."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from keras import ops

from test.backend.support import IS_JAX
from test.support.commands import finish_command, start_python
from tfaip.backend.active import backend
from tfaip.backend.distributed import _choose_port

pytestmark = pytest.mark.backend


@pytest.mark.parametrize(
    ("job", "port"),
    [
        ({"SLURM_JOB_ID": "5000"}, 61440 + 904),
        ({"SLURM_JOB_ID": "5000", "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1:34911"}, 61440 + 1184),
        ({"SLURM_JOB_ID": "5000", "JAX_COORDINATOR_PORT": "12345"}, 12345),
    ],
)
def test_the_port_of_a_launcher_is_that_of_its_job(job, port, monkeypatch):
    monkeypatch.setattr(os, "environ", dict(job))
    _choose_port()
    assert os.environ["JAX_COORDINATOR_PORT"] == str(port)


@pytest.mark.skipif(not IS_JAX, reason="JAX only")
def test_jax_that_was_used_before_it_joined_is_told_by_the_type_of_the_error() -> None:
    code = """
import jax
jax.devices()
from tfaip.backend.distributed import Cluster, join_cluster
from tfaip.errors import UsageError
try:
    join_cluster(Cluster(2, 1, "localhost:12345", "--device.coordinator"), "jax")
except UsageError as error:
    print(error)
"""
    result = finish_command(start_python("-c", code, env={"KERAS_BACKEND": "jax"}))
    assert result.stdout.startswith("JAX has been used before this process joined the others")


def test_a_profiled_step_is_a_context(tmp_path: Path) -> None:
    backend.start_profile(tmp_path)
    with backend.profiled_step(0):
        ops.convert_to_numpy(ops.ones((2,)) + 1)
    backend.stop_profile()
    assert list(tmp_path.rglob("*.xplane.pb"))
