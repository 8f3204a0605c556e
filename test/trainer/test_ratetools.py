"""The rates of a run before and after it: preview, replay, files of RETURNN."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import CommandResult, exit_code
from test.trainer.line import LineScenario, line_params, train
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
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.stages.params import MAIN
from tfaip.trainer.tools.rates import EpochRates, RatedStage, preview_rates, preview_schedules, replay

MIN = "tfaip.scenario.tutorial.min"
PNG = b"\x89PNG\r\n"


def previewed(params: TrainerParams[Any, Any], batches: int, **fields: Any) -> list[EpochRates]:
    chosen = fields.pop("chosen", None)
    return preview_rates([RatedStage(MAIN, (1, params.epochs), batches, params, **fields)], chosen)


def rates_of(rule: LearningRateParams, batches: int = 4, accum: int = 1, epochs: int = 2, **fields: Any) -> list[Any]:
    params = line_params([1.0], learning_rate=rule, epochs=epochs, train_accum_steps=accum)
    rule.epochs = epochs
    return [[rate for _, rate in rates.points] for rates in previewed(params, batches, **fields)]


def test_preview() -> None:
    assert rates_of(ExponentialDecayParams(lr=1.0, decay=0.5, learning_circle=1)) == [[1.0], [0.5]]
    assert rates_of(PolynomialDecayParams(lr=1.0, step_function=False)) == [
        [1, 0.875, 0.75, 0.625],
        [0.5, 0.375, 0.25, 0.125],
    ]
    listed = PolynomialDecayParams(lr=1.0, step_function=False, rates={2: 3.0})
    assert rates_of(listed) == [[1, 0.875, 0.75, 0.625], [3.0] * 4]
    cyclic = ConstantParams(lr=1.0, modulation=CyclicModulationParams(3, 0.5))
    assert rates_of(cyclic, batches=3, accum=2, epochs=3) == [[1.0], [0.5, 0.25], [1.0]]
    assert rates_of(NewbobRelParams(lr=1.0, rates={2: 0.5}), epochs=3) == [[1.0], [0.5], [0.5]]


def test_preview_of_rates_that_somebody_has_chosen() -> None:
    def rates(rule: LearningRateParams) -> list[list[float]]:
        return rates_of(rule, batches=2, epochs=3, chosen=History({2: EpochRecord(0.25)}))

    assert rates(ConstantParams(lr=1.0)) == [[1.0], [0.25], [1.0]]
    assert rates(NewbobRelParams(lr=1.0)) == [[1.0], [0.25], [0.25]]
    continuous = rates(PolynomialDecayParams(lr=1.0, step_function=False))
    assert continuous == [pytest.approx(r) for r in ([1, 5 / 6], [0.25, 0.25], [1 / 3, 1 / 6])]


def test_updates_are_numbered_through_the_stages() -> None:
    rule = ConstantParams(lr=1.0, modulation=CyclicModulationParams(4, 0.5))
    one, two = (line_params([1.0], learning_rate=rule, epochs=5, train_accum_steps=accum) for accum in (1, 2))
    stages = [
        RatedStage("a", (1, 1), 3, one),
        RatedStage("later", (2, 2), 3, None),
        RatedStage("b", (3, 3), 4, two),
        RatedStage("main", (4, 5), 3, one, rate_control=False),
    ]
    rates = preview_rates(stages)
    one.schedules = [ScheduleParams("optimizer.clip_value", {0: 1.0, 5: 2.0})]
    scheduled = preview_schedules(stages)["optimizer.clip_value"]
    assert [epoch.updates for epoch in scheduled] == [(0, 3), (8, 11), (11, 14)]
    # Six batches, six updates; two of two batches each; three and three.
    assert [epoch.updates for epoch in rates] == [(0, 3), (0, 0), (6, 8), (8, 11), (11, 14)]
    found = [None if epoch.points is None else [rate for _, rate in epoch.points] for epoch in rates]
    assert found == [[1, 0.5, 0.25], None, [0.25, 0.125], [1, 0.5, 0.25], [0.125, 1, 0.5]]
    assert [epoch.points[0][0] for epoch in rates if epoch.points is not None] == [0.0, 2.0, 3.0, 4.0]


def test_a_preview_is_what_the_training_does(tmp_path: Path) -> None:
    rule = PolynomialDecayParams(lr=1.0, step_function=False, modulation=CyclicModulationParams(3, 0.5))
    params = line_params([1.0] * 5, output_dir=tmp_path / "run", learning_rate=rule, epochs=3, train_accum_steps=2)
    params = train(params).params
    records = json.loads((tmp_path / "run" / "history.json").read_text())
    found = previewed(params, 5, network=LineScenario(params.scenario).graph)
    planned = [[rate for _, rate in rates.points] for rates in found]
    means = [sum(rates) / len(rates) for rates in planned]
    assert [record["effective_lr"] for record in records.values()] == pytest.approx(means, rel=1e-6)
    assert [record["meta"]["updates"] for record in records.values()] == [2, 5, 7]


def recorded() -> History:
    scores = [2.0, 1.9, 1.895, 1.894]
    return History({e: EpochRecord(0.1, {"val_loss": s, "loss": 1.0}) for e, s in enumerate(scores, 1)})


def test_replay_decides_on_its_own_rates() -> None:
    replayed = replay(NewbobRelParams(lr=0.01, monitor="val_loss"), recorded())
    assert [replayed[e].lr for e in replayed.epochs] == [0.01, 0.01, 0.01, 0.005]
    assert replayed.values(4) == {"val_loss": 1.894, "loss": 1.0}


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


def test_files_of_returnn() -> None:
    history = History.from_dict(parse_learning_rate_file(RETURNN_FILE))
    assert history.epochs == [1, 2, 3]
    assert [history[e].lr for e in history.epochs] == [0.001, 0.0005, None]
    assert history[1].meta == {":meta:effective_learning_rate": 0.0009}
    assert history[2] == EpochRecord(0.0005, {"dev_score": -1.0, "dev_error": -math.inf}, {"steps": 7, "of": [1, None]})
    assert math.isnan(history.values(1)["train_score"])


@pytest.mark.parametrize(
    ("data", "rate", "values"),
    [
        ("learningRate=np.float64(0.5), error={'a': np.float32(1.25)}", 0.5, {"a": 1.25}),
        ("learningRate=-0.0, error={'a': np.float64(-2.5), 'b': float('-inf')}", 0.0, {"a": -2.5, "b": -math.inf}),
        (
            "learningRate=0.5, error={'a': np.float64(-inf), 'b': float('Infinity')}",
            0.5,
            {"a": -math.inf, "b": math.inf},
        ),
        ("learning_rate=0.5, error=0.0", 0.5, {"old_format_score": 0.0}),
        ("learningRate=float(1), error=numpy.float64(0.5)", 1.0, {"old_format_score": 0.5}),
    ],
)
def test_numbers_in_files_of_returnn(data: str, rate: float, values: dict[str, float]) -> None:
    assert History.from_dict(parse_learning_rate_file(f"{{7: EpochData({data})}}"))[7] == EpochRecord(rate, values)


def test_scores_of_returnn_that_are_no_number() -> None:
    numbers = ["nan", "float('nan')", "np.nan", "np.float64(nan)", "float(nan)", "np.float64(float('-nan'))"]
    scores = ", ".join(f"'{i}': {number}" for i, number in enumerate(numbers))
    history = History.from_dict(parse_learning_rate_file(f"{{1: EpochData(learningRate=0.5, error={{{scores}}})}}"))
    assert list(map(math.isnan, history.values(1).values())) == [True] * len(numbers)


@pytest.mark.parametrize(
    "text",
    [
        "{1: EpochData(), 2: __import__('os').system('touch owned')}",
        "{1: EpochData(learningRate=open('owned', 'w'))}",
        "{\n1: EpochData(learningRate=[0.1 for _ in '12'])}",
        "{1: EpochData(learningRate=np.float64('1'))}",
        "{1: EpochData(learningRate=np.load('nan'))}",
        "{1: EpochData(learningRate=" + "[" * 70 + "]" * 70 + ")}",
        "{1: EpochData(learningRate=1), 1: EpochData(learningRate=1)}",
        "{1: EpochData(learningRate=" + "-" * 100_000 + "1)}",
        "{0: EpochData(learningRate=1)}",
        "{1: 0.5} EpochData()",
        "{**EpochData()}",
        "EpochData(",
        "[" + "EpochData(), " * 150_001 + "]",
    ],
    ids=lambda text: text[:40],
)
def test_anything_else_is_refused_and_never_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rates").write_text(text)
    with pytest.raises(
        UsageError, match="^rates: not a (learning_rate_file of RETURNN|history) .expected .*: ."
    ) as caught:
        read_history("rates")
    assert len(str(caught.value)) <= 300
    assert [path.name for path in tmp_path.iterdir()] == ["rates"]


@pytest.fixture
def history_file(tmp_path: Path) -> Path:
    file = tmp_path / "history.json"
    file.write_text(json.dumps(recorded().to_dict()))
    return file


def test_replay_of_a_file(history_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    png = history_file.with_name("picture.png")
    flags = ["--learning_rate", "NewbobRel", "--learning_rate.monitor", "val_loss", "--learning_rate.lr", "0.01"]
    assert replay_learning_rate.main([str(history_file), *flags, "--png", str(png)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[:5]] == [
        ["epoch", "recorded", "replayed", "val_loss"],
        ["1", "0.1", "0.01", "2"],
        ["2", "0.1", "0.01", "1.9"],
        ["3", "0.1", "0.01", "1.895"],
        ["4", "0.1", "0.005", "1.894"],
    ]
    assert "* recorded   o replayed" in lines
    assert png.read_bytes().startswith(PNG)


def test_replay_of_a_file_of_returnn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "learning_rates"
    file.write_text(RETURNN_FILE)
    assert (
        replay_learning_rate.main([str(file), "--learning_rate", "NewbobAbs", "--learning_rate.monitor", "dev_score"])
        == 0
    )
    assert ["3", "-", "0.001", "-"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("recorded_rates", "lr"), [([0.0, 0.5], "0"), ([None, 0.5], "0.5"), ([None, None], "0.001")])
def test_the_first_recorded_rate_is_the_default(
    recorded_rates: list[float | None], lr: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "history.json"
    file.write_text(json.dumps(History({e: EpochRecord(r) for e, r in enumerate(recorded_rates, 1)}).to_dict()))
    assert replay_learning_rate.main([str(file)]) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[2] == lr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--learning_rate", "NewbobRel"],
            "monitor is None, expected a logged value (loss, val_loss): change --learning_rate.monitor",
        ),
        (
            ["--learning_rate", "NewbobRel", "--learning_rate.monitor", "acc"],
            "monitor is 'acc', expected a logged value (loss, val_loss)",
        ),
        (["--learning_rate", "CosineDecay", "--png", "gone/x.png"], "gone/x.png cannot be written: there is no"),
    ],
)
def test_mistakes_of_a_replay(
    flags: list[str], message: str, history_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(replay_learning_rate.main, [str(history_file), *flags]) == 2
    assert message in capsys.readouterr().err


def test_there_must_be_something_to_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(replay_learning_rate.main, []) == 2
    assert exit_code(replay_learning_rate.main, [str(tmp_path / "gone")]) == 2
    assert exit_code(replay_learning_rate.main, [str(tmp_path)]) == 2
    (tmp_path / "empty").write_text("{}")
    assert exit_code(replay_learning_rate.main, [str(tmp_path / "empty")]) == 2
    which, gone, no_run, empty = capsys.readouterr().err.splitlines()
    assert "which run? expected: tfaip-replay-learning-rate RUN" in which
    assert "gone: cannot be read (No such file" in gone
    assert "no run at" in no_run
    assert "records no epoch: nothing to replay" in empty


@pytest.mark.slow
def test_replay_of_a_run_gives_what_it_did(
    tmp_path: Path, run_command: Callable[..., CommandResult], capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    flags: list[Any] = ["--trainer.epochs", "3", "--trainer.samples_per_epoch", "32", "--trainer.export_best", "False"]
    flags += ["--trainer.export_final", "False", "--learning_rate", "NewbobAbs", "--learning_rate.threshold", "-9"]
    assert run_command("train", MIN, "--trainer.output_dir", run, *flags).rc == 0
    assert replay_learning_rate.main([str(run)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:4]]
    assert [row[1:3] for row in rows] == [["0.001", "0.001"], ["0.001", "0.001"], ["0.0005", "0.0005"]]
    # Only what is typed differs from the params of the run.
    assert replay_learning_rate.main([str(run), "--learning_rate.decay", "0.25"]) == 0
    assert capsys.readouterr().out.splitlines()[3].split()[1:3] == ["0.0005", "0.00025"]
    (run / "history.json").write_text("{}")  # as long as its first epoch runs
    assert exit_code(replay_learning_rate.main, [str(run)]) == 2
    assert "records no epoch: nothing to replay" in capsys.readouterr().err


def test_preview_of_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    png = tmp_path / "picture.png"
    flags = ["--trainer.epochs", "4", "--trainer.samples_per_epoch", "48", "--learning_rate.decay", "0.5"]
    assert preview_schedule.main([MIN, *flags, "--learning_rate.learning_circle", "2", "--png", str(png)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ExponentialDecay: 4 epochs of 3 batches, 12 updates"
    assert [line.split() for line in lines[2:5]] == [["epoch", "rate"], ["1-2", "0.001"], ["3-4", "0.0005"]]
    assert lines[6].startswith(" 0.001 |*")
    assert lines[17].startswith("0.0005 |")
    assert png.read_bytes().startswith(PNG)
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]
    smooth = ["--learning_rate", "CosineDecay", "--learning_rate.step_function", "False", "--trainer.epochs", "40"]
    assert preview_schedule.main([MIN, *smooth, "--trainer.samples_per_epoch", "48", "--png", str(png)]) == 0
    capsys.readouterr()
    (tmp_path / "rates.json").write_text('{"3": {"lr": 0.25}}')
    assert preview_schedule.main([MIN, *flags, "--trainer.history_file", str(tmp_path / "rates.json")]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[3:6]]
    assert rows == [["1-2", "0.001"], ["3", "0.25"], ["4", "0.0005"]]


def test_preview_of_what_follows_scores_and_of_many_epochs(capsys: pytest.CaptureFixture[str]) -> None:
    assert preview_schedule.main([MIN, "--learning_rate", "NewbobRel"]) == 0
    assert "the rate will follow the scores of the training" in capsys.readouterr().out
    assert preview_schedule.main([MIN, "--learning_rate", "PolynomialDecay"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()[3:44]]
    assert rows == [*map(str, range(1, 21)), "...", *map(str, range(81, 101))]


def test_mistakes_of_a_preview(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(preview_schedule.main, []) == 2
    assert exit_code(preview_schedule.main, [MIN, "--learning_rate", "NewbobRel", "--learning_rate.min_lr", "1"]) == 2
    assert exit_code(preview_schedule.main, [MIN, "--learning_rate.modulation", "Function"]) == 2
    which, bounds, missing = capsys.readouterr().err.splitlines()
    assert "which scenario? expected: tfaip-preview-schedule SCENARIO" in which
    assert "min_lr is 1.0, expected at most lr (0.001)" in bounds
    assert "missing required flag: --learning_rate.modulation.function" in missing


def test_stages_that_hold_the_rate_keep_it_in_a_replay() -> None:
    held = EpochRecord(0.25, {"loss": 5.0}, {"rate_control": False})
    equal = EpochRecord(1.0, {"loss": 2.0})
    history = History({1: equal, 2: held, 3: equal, 4: EpochRecord(1.0)})
    replayed = replay(NewbobAbsParams(lr=1.0, monitor="loss"), history)
    # Epoch 4 compares 3 with 1; without the stage in between, 3 would decay and 4 would not.
    assert [replayed[epoch].lr for epoch in (1, 2, 3, 4)] == [1.0, 0.25, 1.0, 0.5]


def test_long_epochs_are_shown_by_some_updates() -> None:
    params = line_params([1.0], learning_rate=PolynomialDecayParams(lr=1.0, step_function=False, epochs=1))
    (rates,) = previewed(params, 1000)
    assert rates.updates == (0, 1000)
    assert len(rates.points) == 40
    assert (rates.points[0], rates.points[-1]) == ((0.0, 1.0), (0.999, pytest.approx(0.001, rel=1e-4)))


def test_preview_of_more_epochs_than_can_be_computed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(preview_schedule.main, [MIN, "--trainer.epochs", str(2**62)]) == 2
    assert "epochs are too many to compute their rates, expected at most 1000000" in capsys.readouterr().err
