"""A scenario as it was written for tfaip 1.2, with list files and TensorFlow operations, runs unchanged."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest

from test.support.runs import assert_same_run, history, make_once, result_lines
from tfaip.imports import LAVParams, PredictorParams

pytestmark = [
    pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="the scenario uses TensorFlow operations"),
    # Old names, which a program of that time uses.
    pytest.mark.filterwarnings("ignore:.* is (deprecated since tfaip|now called):DeprecationWarning"),
]

EPOCHS = 3
UNITS = ["--model.units", "6"]


def write_list(directory: Path, name: str, count: int, seed: int) -> None:
    """Write words and a list of them: arrays of integers `[3 to 6, 4]`; the column of the class has the largest sum."""
    rng = np.random.default_rng(seed)
    paths = [directory / f"{name}_{i}.npy" for i in range(count)]
    for i, path in enumerate(paths):
        word = rng.integers(0, 3, (rng.integers(3, 7), 4))
        word[:, i % 3] += 3
        np.save(path, word)
        path.with_suffix(".label.txt").write_text("abc"[i % 3] + "\n")
    (directory / f"{name}.lst").write_text("\n".join(map(str, paths)))


def words_of(listed: Path) -> list[str]:
    return listed.read_text().split()


@pytest.fixture(scope="module")
def lists(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(path: Path) -> None:
        write_list(path, "train", 12, seed=1)
        write_list(path, "val", 6, seed=2)

    return make_once(tmp_path_factory, "words", make)


def flags(lists: Path, run: Path) -> list[str]:
    return [
        *["--trainer.output_dir", str(run), "--trainer.lav_every_n", "1", "--trainer.lav_silent", "False"],
        *["--train.lists", str(lists / "train.lst"), "--val.lists", str(lists / "val.lst")],
    ]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, lists: Path) -> Path:
    """The directory of a training by the scenario's own `main`."""
    from test.clients.words.scenario import main

    def make(path: Path) -> None:
        main([*flags(lists, path / "run"), *UNITS])

    return make_once(tmp_path_factory, "words-run", make) / "run"


@pytest.fixture(scope="module")
def names(run: Path, lists: Path) -> list[str]:
    """What the best model reads in the words of the validation."""
    from test.clients.words.params import FilesParams
    from test.clients.words.scenario import WordsScenario

    predictor = WordsScenario.create_predictor(str(run / "best"), PredictorParams(silent=True))
    samples = list(predictor.predict(FilesParams(files=words_of(lists / "val.lst"))))
    predictor.benchmark_results.pretty_print()
    assert [sample.meta["path"] for sample in samples] == words_of(lists / "val.lst")
    return [sample.outputs["name"] for sample in samples]


@pytest.mark.slow
def test_own_main_trains_with_processors_and_arguments_of_the_hooks_and_logs(run: Path) -> None:
    from test.clients.words.scenario import WordsScenario

    values = [epoch["values"] for epoch in history(run).values()]
    assert len(values) == EPOCHS
    assert values[-1]["loss"] < values[0]["loss"]
    logged = "loss loss_loss size acc val_loss val_acc lav_l0_acc lav_l0_eval_acc"
    assert set(logged.split()) <= values[0].keys()
    assert [value["lav_l0_total"] for value in values] == [6] * EPOCHS

    params = json.loads((run / "trainer_params.json").read_text())
    names = [p["__cls__"].rpartition(":")[2] for p in params["scenario"]["data"]["pre_proc"]["processors"]]
    assert names == ["LoadParams", "ScaleParams", "EncodeParams", "NoiseParams"]
    assert params["scenario"]["model"]["units"] == 6

    graph = WordsScenario(params=WordsScenario.params_from_path(str(run / "best"))).graph
    assert (graph.n_classes, graph.temperature) == (3, 0.5)
    assert [epoch for epoch, _ in result_lines(run)] == [1, 2, 3]
    log = (run / "train.log").read_text()
    assert log.count("Training words with 6 units") == 1
    assert "word a read as" in log


@pytest.mark.guard
def test_resumes_as_if_not_interrupted(run: Path, lists: Path, tmp_path: Path) -> None:
    from test.clients.words.scenario import main
    from tfaip.trainer.trainer import Trainer

    main([*flags(lists, tmp_path / "run"), *UNITS, "--trainer.epochs", "2"])
    stored = tmp_path / "run" / "trainer_params.json"
    stored.write_text(json.dumps({**json.loads(stored.read_text()), "epochs": EPOCHS}))
    trainer = Trainer.restore_trainer(str(tmp_path / "run"))
    trainer.train()
    assert trainer.epoch == EPOCHS
    assert_same_run(tmp_path / "run", run)


def test_predicts_files_bare_inputs_and_one_by_one(run: Path, lists: Path, names: list[str]) -> None:
    from test.clients.words.scenario import WordsScenario

    assert set(names) <= set("abc")
    predictor = WordsScenario.create_predictor(str(run / "best"), PredictorParams(silent=True))
    paths = words_of(lists / "val.lst")
    assert [sample.outputs["name"] for sample in predictor.predict_raw(paths)] == names
    with predictor.raw() as read:
        assert read(paths[4]).outputs["name"] == names[4]


@pytest.mark.guard
def test_lav_gives_the_values_of_the_training(run: Path, lists: Path, names: list[str]) -> None:
    from test.clients.words.scenario import WordsScenario

    scenario_params = WordsScenario.params_from_path(str(run / "best"))
    trained = WordsScenario.default_trainer_params()
    trained.gen.val.lists = [str(lists / "val.lst")]
    lav = WordsScenario.create_lav(LAVParams(model_path=str(run / "best")), scenario_params)
    (results,) = lav.run(trained.gen.lav_gen())

    assert results["eval_acc"] == np.mean([name == "abc"[i % 3] for i, name in enumerate(names)])
    assert results["total"] == 6
    best = max((epoch["values"] for epoch in history(run).values()), key=lambda values: values["val_acc"])
    assert results["acc"] == best["lav_l0_acc"]


@pytest.mark.slow
def test_cross_fold_trains_a_model_per_fold_and_they_vote(lists: Path, tmp_path: Path) -> None:
    from test.clients.words.params import FilesParams
    from test.clients.words.scenario import WordsScenario, main

    models = main([*flags(lists, tmp_path / "folds"), "--n_folds", "2", "--trainer.epochs", "1"])
    assert models == [str(tmp_path / "folds" / f"fold_{i}" / "best") for i in range(2)]
    held_out = [words_of(tmp_path / "folds" / f"val_{i}.lst") for i in range(2)]
    assert sorted(sum(held_out, [])) == sorted(words_of(lists / "train.lst"))

    files = FilesParams(files=words_of(lists / "val.lst"))
    single = []
    for model in models:
        predictor = WordsScenario.create_predictor(model, PredictorParams(silent=True))
        single.append([sample.outputs["name"] for sample in predictor.predict(files)])
    voting = WordsScenario.create_multi_predictor(models, PredictorParams(silent=True))
    voted = list(voting.predict(files))
    votes = [Counter(column) for column in zip(*single, strict=True)]
    assert [Counter(sample.outputs["votes"]) for sample in voted] == votes
    for sample, counts in zip(voted, votes, strict=True):
        assert counts[sample.outputs["name"]] == max(counts.values())
