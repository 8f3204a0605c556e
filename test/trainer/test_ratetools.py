"""The rates of a run before and after it: preview, replay, files of RETURNN."""

import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import exit_code
from test.trainer.line import line_params, train
from tfaip.errors import UsageError
from tfaip.scripts import preview_schedule, replay_learning_rate
from tfaip.trainer.history import EpochRecord, History, parse_learning_rate_file, read_history
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import (
    ConstantParams,
    CyclicModulationParams,
    ExponentialDecayParams,
    LearningRateParams,
    NewbobAbsParams,
    NewbobRelParams,
    PolynomialDecayParams,
)
from tfaip.trainer.stages.params import MAIN, TrainStage
from tfaip.trainer.stages.program import PlannedStage
from tfaip.trainer.tools.rates import RATE, EpochRates, preview_rates, replay
from tfaip.util.chart import draw

MIN = "tfaip.scenario.tutorial.min"
REPLAY, PREVIEW = replay_learning_rate.main, preview_schedule.main


def previewed(params: TrainerParams[Any, Any], batches: int, chosen: Any = None) -> list[EpochRates]:
    stage = PlannedStage(TrainStage(MAIN, epochs=1), 0, 1, params.epochs, params)
    return preview_rates([(stage, batches, None)], chosen)[RATE]


def rates_of(rule: LearningRateParams, batches: int = 4, accum: int = 1, epochs: int = 2, **fields: Any) -> list[Any]:
    params = line_params([1.0], learning_rate=rule, epochs=epochs, train_accum_steps=accum)
    rule.epochs = epochs
    return [[rate for _, rate in rates.points] for rates in previewed(params, batches, **fields)]


def test_preview() -> None:
    linear = {"lr": 1.0, "step_function": False}
    assert rates_of(ExponentialDecayParams(lr=1.0, decay=0.5, learning_circle=1)) == [[1.0], [0.5]]
    assert rates_of(PolynomialDecayParams(**linear, rates={2: 3.0})) == [[1, 0.875, 0.75, 0.625], [3.0] * 4]
    cyclic = ConstantParams(lr=1.0, modulation=CyclicModulationParams(3, 0.5))
    assert rates_of(cyclic, batches=3, accum=2, epochs=3) == [[1.0], [0.5, 0.25], [1.0]]
    assert rates_of(NewbobRelParams(lr=1.0, rates={2: 0.5}), epochs=3) == [[1.0], [0.5], [0.5]]
    # Rates that somebody has chosen.
    for rule, expected in [
        (NewbobRelParams(lr=1.0), [[1.0], [0.25], [0.25]]),
        (PolynomialDecayParams(**linear), [[1, 5 / 6], [0.25, 0.25], [1 / 3, 1 / 6]]),
    ]:
        found = rates_of(rule, batches=2, epochs=3, chosen=History({2: EpochRecord(0.25)}))
        assert found == [pytest.approx(rates) for rates in expected]


def test_a_preview_is_what_the_training_does(tmp_path: Path) -> None:
    rule = PolynomialDecayParams(lr=1.0, step_function=False, modulation=CyclicModulationParams(3, 0.5))
    params = line_params([1.0] * 5, output_dir=tmp_path / "run", learning_rate=rule, epochs=3, train_accum_steps=2)
    params = train(params).params
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    means = [sum(rate for _, rate in rates.points) / len(rates.points) for rates in previewed(params, 5)]
    assert [record["effective_lr"] for record in records.values()] == pytest.approx(means, rel=1e-6)
    assert [record["meta"]["updates"] for record in records.values()] == [2, 5, 7]


def recorded() -> History:
    scores = [2.0, 1.9, 1.895, 1.894]
    return History({e: EpochRecord(0.1, {"val_loss": s, "loss": 1.0}, {}, 0.1) for e, s in enumerate(scores, 1)})


def test_replay_decides_on_its_own_rates() -> None:
    replayed = replay(NewbobRelParams(lr=0.01, monitor="val_loss"), recorded())
    assert [replayed[e].lr for e in replayed.epochs] == [0.01, 0.01, 0.01, 0.005]
    assert (replayed.values(4), replayed[4].effective_lr) == ({"val_loss": 1.894, "loss": 1.0}, None)
    # Stages that hold the rate keep it.
    held, equal = EpochRecord(0.25, {"loss": 5.0}, {"rate_control": False}), EpochRecord(1.0, {"loss": 2.0})
    replayed = replay(
        NewbobAbsParams(lr=1.0, monitor="loss"), History({1: equal, 2: held, 3: equal, 4: EpochRecord(1.0)})
    )
    # Epoch 4 compares 3 with 1; without the stage in between, 3 would decay and 4 would not.
    assert [replayed[epoch].lr for epoch in (1, 2, 3, 4)] == [1.0, 0.25, 1.0, 0.5]


RETURNN_FILE = """\
{
1: EpochData(learningRate=0.001, error={
'dev_score': 2.5,
'train_score': nan,
':meta:effective_learning_rate': 0.0009,
}),
2: EpochData(learningRate=5e-04, error={'dev_score': -1, 'dev_error': -inf}, meta={'steps': 7, 'of': [1, None]}),
3: EpochData(learningRate=None),
}
"""


def returnn(text: str) -> History:
    return History.from_dict(parse_learning_rate_file(text, "rates"))


def test_files_of_returnn() -> None:
    history = returnn(RETURNN_FILE)
    assert [history[e].lr for e in history.epochs] == [0.001, 0.0005, None]
    assert history[1].meta == {":meta:effective_learning_rate": 0.0009}
    assert history[2] == EpochRecord(0.0005, {"dev_score": -1.0, "dev_error": -math.inf}, {"steps": 7, "of": [1, None]})
    assert math.isnan(history.values(1)["train_score"])
    for data, rate, values in [
        ("learningRate=np.float64(0.5), error={'a': np.float32(1.25)}", 0.5, {"a": 1.25}),
        ("learningRate=-0.0, error={'a': np.float64(-2.5), 'b': float('-inf')}", 0.0, {"a": -2.5, "b": -math.inf}),
    ]:
        record = EpochRecord(rate, values)
        assert returnn(f"{{7: EpochData({data})}}")[7] == record
    scores = "'a': float('nan'), 'b': np.nan, 'c': np.float64(nan)"
    history = returnn(f"{{1: EpochData(learningRate=0.5, error={{{scores}}})}}")
    assert list(map(math.isnan, history.values(1).values())) == [True] * 3


@pytest.mark.parametrize(
    "text",
    [
        "{1: EpochData(learningRate=open('owned', 'w'))}",
        "{\n1: EpochData(learningRate=[0.1 for _ in '12'])}",
        "{1: EpochData(learningRate=np.load('nan'))}",
        "{1: EpochData(learningRate=" + "[" * 70 + "]" * 70 + ")}",
        "{1: EpochData(learningRate=" + "-" * 100_000 + "1)}",
        "{0: EpochData(learningRate=1)}",
        "EpochData(",
        "[" + "EpochData(), " * 150_001 + "]",
    ],
    ids=lambda text: text[:40],
)
def test_anything_else_is_refused_and_never_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates").write_text(text)
    message = "^rates: not a (learning_rate_file of RETURNN|history) .expected .*: ."
    with pytest.raises(UsageError, match=message) as caught:
        read_history("rates")
    assert len(str(caught.value)) <= 300
    assert [path.name for path in tmp_path.iterdir()] == ["rates"]


def rows_of(main: Any, *words: Any) -> list[list[str]]:
    """What a command prints, as words."""
    with io.StringIO() as printed, contextlib.redirect_stdout(printed):
        assert main([str(word) for word in words]) == 0
        return [line.split() for line in printed.getvalue().splitlines()]


def stored(tmp_path: Path, history: History) -> Path:
    (tmp_path / "history.json").write_text(history.text())
    return tmp_path / "history.json"


def test_replay_of_a_file(tmp_path: Path) -> None:
    file = stored(tmp_path, recorded())
    flags = ["--learning_rate", "NewbobRel", "--learning_rate.monitor", "val_loss", "--learning_rate.lr", "0.01"]
    rows = rows_of(REPLAY, file, *flags)
    assert rows[0] == ["epoch", "recorded", "replayed", "val_loss"]
    assert rows[3:] == [["3", "0.1", "0.01", "1.895"], ["4", "0.1", "0.005", "1.894"]]
    (tmp_path / "of_returnn").write_text(RETURNN_FILE)
    flags = ["--learning_rate", "NewbobAbs", "--learning_rate.monitor", "dev_score"]
    assert ["3", "-", "0.001", "-"] in rows_of(REPLAY, tmp_path / "of_returnn", *flags)


@pytest.mark.parametrize(
    ("main", "words", "message"),
    [
        (REPLAY, "history.json --learning_rate NewbobRel", "monitor is None, expected a logged value (loss"),
        (REPLAY, "empty", "records no epoch: nothing to replay"),
        (PREVIEW, f"{MIN} --png gone/x.png", "gone/x.png cannot be written: there is no"),
        (PREVIEW, f"{MIN} --learning_rate Function --learning_rate.function no:f", ": change --learning_rate.function"),
    ],
)
def test_mistakes(main: Any, words: str, message: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    stored(tmp_path, recorded())
    (tmp_path / "empty").write_text("{}")
    assert exit_code(main, words.split()) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_replay_of_a_run_gives_what_it_did(tmp_path: Path, run_command) -> None:
    run = tmp_path / "run"
    flags = "--trainer.epochs 3 --trainer.samples_per_epoch 32 --trainer.export_best False --trainer.export_final False"
    flags += " --learning_rate NewbobAbs --learning_rate.threshold -9"
    assert run_command("train", MIN, "--trainer.output_dir", run, *flags.split()).rc == 0
    assert [row[1:3] for row in rows_of(REPLAY, run)[1:4]] == [["0.001"] * 2, ["0.001"] * 2, ["0.0005"] * 2]
    # Only what is typed differs from the params of the run.
    assert rows_of(REPLAY, run, "--learning_rate.decay", "0.25")[3][1:3] == ["0.0005", "0.00025"]


def test_preview_of_a_scenario(tmp_path: Path) -> None:
    png, count = tmp_path / "picture.png", ["--trainer.samples_per_epoch", "48"]
    flags = [*count, "--trainer.epochs", "4", "--learning_rate.decay", "0.5"]
    rows = rows_of(PREVIEW, MIN, *flags, "--learning_rate.learning_circle", "2", "--png", png)
    assert " ".join(rows[0]) == "ExponentialDecay: 4 epochs of 3 batches, 12 updates"
    assert rows[2:5] == [["epoch", "rate"], ["1-2", "0.001"], ["3-4", "0.0005"]]
    assert png.read_bytes().startswith(b"\x89PNG\r\n")
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]
    (tmp_path / "rates.json").write_text('{"3": {"lr": 0.25}}')
    rows = rows_of(PREVIEW, MIN, *flags, "--trainer.history_file", tmp_path / "rates.json")[3:6]
    assert rows == [["1-2", "0.001"], ["3", "0.25"], ["4", "0.0005"]]
    assert draw("x", {"a": {"a": [(1.0, 1.0), (2.0, 0.01), (3.0, 1e-4)]}}).axes[0].get_yscale() == "log"
    text = " ".join(sum(rows_of(PREVIEW, MIN, "--learning_rate", "NewbobRel"), []))
    assert "the rate will follow the scores of the training" in text
