"""The pages for users of other toolkits: examples run and do what is said, and all flags that are named exist."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from test.docs.test_docs import DOCS, blocks, commands, run_page, write_files
from tfaip.imports import ListsFileGeneratorParams, PipelineMode
from tfaip.scripts import train

RETURNN, LIGHTNING = "migration_returnn.md", "migration_lightning.md"


def records(run: Path, kind: str, name: str) -> list[Any]:
    return [record[kind][name] for record in json.loads((run / "history.json").read_text()).values()]


@pytest.mark.slow
def test_the_example_for_users_of_returnn(tmp_path: Path) -> None:
    run_page(RETURNN, tmp_path, [typed for typed in commands(RETURNN) if typed[0] != "replay_learning_rate"])
    run = tmp_path / "runs" / "phones"
    assert records(run, "values", "val_error")[-1] < 0.2
    assert records(run, "meta", "stage") == ["pretraining.0"] * 2 + ["main"] * 7
    # 471 chunks are 24 batches of at most 20, and 12 updates.
    assert records(run, "meta", "updates") == list(range(12, 12 * 10, 12))
    assert len((tmp_path / "predicted.jsonl").read_text().splitlines()) == 60


def test_a_file_of_returnn_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(RETURNN, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with h5py.File(tmp_path / "train.hdf", "w") as file:
        file["inputs"], file["targets/data/classes"] = np.arange(10.0).reshape(5, 2), [0, 1, 1, 2, 0]
        file["seqLengths"], file["seqTags"] = [[2, 2], [3, 3]], ["corpus/1", "corpus/2"]
    samples: Any = importlib.import_module("hdf").ReturnnHdf(file=str(tmp_path / "train.hdf"))
    samples = samples.create(PipelineMode.TRAINING)
    assert len(samples) == 2
    assert samples[1].inputs["data"].tolist() == [[4, 5], [6, 7], [8, 9]]
    assert (samples[1].targets["classes"].tolist(), samples[1].meta) == ([1, 2, 0], {"seq_tag": "corpus/2"})
    del sys.modules["hdf"]


@pytest.mark.slow
def test_the_example_for_users_of_lightning(tmp_path: Path) -> None:
    run_page(LIGHTNING, tmp_path, commands(LIGHTNING))
    run = tmp_path / "runs" / "spirals"
    assert max(records(run, "values", "val_acc")) > 0.9
    # 900 points are 29 batches, the last one of 4: 14 updates, and a batch that waits for the next epoch.
    assert records(run, "meta", "updates") == [14, 29, 43, 58, 72, 87, 101, 116, 130, 145]
    predicted = [
        json.loads(line)["outputs"]["class"] for line in (tmp_path / "predicted.jsonl").read_text().splitlines()
    ]
    assert len(predicted) == 300
    assert set(predicted) == {0, 1, 2}


# Classes whose flags a page may name, besides those that are chosen by default.
CHOICES = [
    "",
    "--learning_rate NewbobMultiEpoch --learning_rate.modulation Cyclic --optimizer SGD --optimizer.groups Optimizer",
    "--learning_rate ReduceOnPlateau --schedules Schedule --weight_penalties Weight --stages a=Train",
    "--learning_rate WarmupCosineDecay --learning_rate.modulation Noam --optimizer AdamW",
    "--learning_rate Piecewise",
    "--learning_rate Function",
]
FLAG = re.compile(r"--[a-z_]+(?:\.\w+)*")
# Of the scenario of the page, of tfaip-lav, and of Lightning.
OTHERS = {"--model", "--model.layers", "--pipeline.limit", "--ckpt_path", "--trainer.max_epochs"}


def test_every_flag_that_a_page_names_exists(capsys: pytest.CaptureFixture[str]) -> None:
    known = {f"--train.{field.name}" for field in fields(ListsFileGeneratorParams)}
    for path in Path(train.__file__).parent.rglob("*.py"):  # usage texts of the commands
        known.update(FLAG.findall(path.read_text()))
    for choice in CHOICES:
        with pytest.raises(SystemExit):
            train.main(["tfaip.scenario.tutorial.full", *choice.split(), "--help", "all"])
        known.update(FLAG.findall(capsys.readouterr().out))
    for page in (RETURNN, LIGHTNING):
        typed = {word for code in blocks(page, "shell") for word in shlex.split(code)}
        assert set(FLAG.findall((DOCS / page).read_text())) - known - typed - OTHERS == set()
