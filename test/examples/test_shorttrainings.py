"""The second scenarios of two examples, trained so little that only their way is tested."""

import json
import shutil
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


@pytest.mark.slow
def test_lines_are_read_by_a_vote(tmp_path: Path) -> None:
    copy = copy_of("lines", tmp_path)
    few = ["--train.size", "16", "--val.size", "4", "--train.bucket_boundaries", "128", "--model.filters", "4"]
    result = run_several([["train", "written", *few, "--trainer.output_dir", "runs/one", *SHORT]], cwd=copy)
    assert result.rc == 0, result
    runs = ["runs/one", "runs/two"]
    shutil.copytree(copy / runs[0], copy / runs[1])
    votes = ["multi_lav", "--export_dirs", *runs, "--out", "votes.json"]
    predictions = ["predict", "--export_dir", *runs, "--dump", "written.jsonl", "--dump_inputs"]
    result = run_several([votes, predictions], cwd=copy)
    assert result.rc == 0, result
    results = json.loads((copy / "votes.json").read_text())["results"]["lav_l0"]
    assert list(results) == [*(f"{run}/best" for run in runs), "voted"]
    samples = [json.loads(line) for line in (copy / "written.jsonl").read_text().splitlines()]
    assert len(samples) == 4
    pytest.importorskip("PIL")
    drawn = finish_command(start_python("picture.py", "written.jsonl", "written.svg", cwd=copy))
    assert drawn.rc == 0, drawn
    picture = (copy / "written.svg").read_text()
    wrong = [sample for sample in samples if sample["outputs"]["text"] != sample["meta"]["text"]]
    assert picture.count("<image ") == picture.count("<text ") == 4 + len(wrong)
    assert all(f"{sample['meta']['text']}" in picture for sample in samples)
