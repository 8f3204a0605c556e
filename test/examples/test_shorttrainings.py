"""The second scenarios of two examples, trained so little that only their way is tested."""

from pathlib import Path

import h5py
import numpy as np
import pytest

from test.examples.test_examples import copy_of
from test.support.commands import finish_command, run_several, start_module, start_python
from tfaip.model.weights import load_weights_of

SHORT = [
    *("--trainer.epochs", "1", "--trainer.export_final", "False", "--trainer.skip_model_load_test", "True"),
    *("--scenario.export_serve", "False"),
]


def kernels_of(file: Path) -> list[np.ndarray]:
    """All kernels of convolutions in a file of Keras."""
    found: list[np.ndarray] = []

    def add(_: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and len(item.shape) == 4:
            found.append(np.array(item))

    with h5py.File(file) as opened:
        opened.visititems(add)
    return found


@pytest.mark.slow
@pytest.mark.backend
def test_a_frozen_backbone_keeps_the_weights_of_its_file(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    copy = copy_of("images", tmp_path)
    process = start_module("make_backbone", "backbone.weights.h5", "20", "1", cwd=copy)
    made = finish_command(start_python("make_digits.py", "digits", cwd=copy))
    assert made.rc == 0, made
    trained = finish_command(process)
    assert trained.rc == 0, trained
    flags = ["--data.folder", "digits", "--train.per_class", "1", "--val.limit", "4"]
    frozen = ["--model.backbone", "backbone.weights.h5", "--trainer.no_train_scope", "backbone"]
    result = run_several([["train", "transfer", *flags, *frozen, "--trainer.output_dir", "run", *SHORT]], cwd=copy)
    assert result.rc == 0, result
    found = [array for array in load_weights_of(copy / "run" / "best").values() if array.ndim == 4]
    given = kernels_of(copy / "backbone.weights.h5")
    assert len(found) == len(given) == 4
    for kernel in given:
        assert any(np.array_equal(kernel, other) for other in found)
