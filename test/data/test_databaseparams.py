from __future__ import annotations

import math
import subprocess
import sys

import pytest

from test.data.support import RowData, RowDataParams
from tfaip.data.databaseparams import DataBaseParams, DataPipelineParams


def test_impossible_values_are_refused(subtests: pytest.Subtests) -> None:
    for values, message in [
        ({"batch_size": 0}, "batch_size is 0, expected at least 1"),
        ({"limit": 0}, "limit is 0, expected at least 1, or -1 for all"),
        ({"shuffle_buffer_size": -2}, "shuffle_buffer_size is -2"),
        ({"max_element_length": 0}, "max_element_length is 0, expected at least 1, or None"),
        ({"on_error": "skip:many"}, "on_error is 'skip:many', expected raise, skip, or skip:N"),
        ({"bucket_boundaries": [3, 2]}, r"bucket_boundaries is \[3, 2\], expected rising lengths from 1"),
        (
            {"bucket_boundaries": [2], "bucket_batch_sizes": [4]},
            r"is \[4\], expected one number per bucket \(2, one",
        ),
        ({"bucket_batch_sizes": [4, 2]}, r"bucket_batch_sizes is \[4, 2\], expected bucket_boundaries beside it"),
        ({"num_processes": 2**31}, "num_processes is 2147483648, expected a number from 0 to 1024"),
        ({"worker_timeout_s": math.nan}, r"worker_timeout_s is nan, expected a finite number in \(0, 2147483\]"),
        ({"worker_start_s": math.nan}, "worker_start_s is nan, expected a finite number from 0 to 2147483, or -1"),
    ]:
        with subtests.test(values=values), pytest.raises(ValueError, match=message):
            DataPipelineParams(**values)


def test_create_builds_the_class_of_the_params() -> None:
    params = RowDataParams()
    data = params.create()
    assert type(data) is RowData
    assert data.params is params
    with pytest.raises(NotImplementedError, match="override cls"):
        DataBaseParams().create()


def test_params_import_neither_a_backend_nor_numpy() -> None:
    code = (
        "import sys, tfaip.data.databaseparams, tfaip.data.pipeline.datagenerator, "
        "tfaip.data.pipeline.processor.dataprocessor, tfaip.data.generators.listsfile, "
        "tfaip.data.generators.csvfile, tfaip.data.generators.sequence\n"
        "print([name for name in ('numpy', 'keras', 'tensorflow', 'jax') if name in sys.modules])\n"
        "import tfaip.data.data\n"
        "print([name for name in ('keras', 'tensorflow', 'jax') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split("\n")[:2] == ["[]", "[]"]
