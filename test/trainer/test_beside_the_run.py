"""Nothing beside a run is ever changed, whatever its params, its params file or links in its directory say."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.beside import contents, fill_beside
from test.support.commands import exit_code
from test.trainer.line import LineScenario, LineTrainerParams, line_params, train
from tfaip.errors import TfaipError, UsageError
from tfaip.scripts import resume_training, train_from_params
from tfaip.trainer.run.output import CheckpointStore


def params_of(run: Path, epochs: int = 2, **fields: Any) -> LineTrainerParams:
    params = line_params([0.5, 0.5], [1.0], run, epochs=epochs, export_best=True, export_final=True, **fields)
    params.scenario.model.start, params.scenario.model.monitor = 10.0, ["min", "loss"]
    return params


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    train(params_of(run, keep_checkpoints=5))
    return run


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Iterator[Path]:
    """The directory with a run and a user's files; afterwards the files must be what they were."""
    place = tmp_path / "place"
    shutil.copytree(trained, place / "run")
    fill_beside(place, trained)
    before = contents(place, without="run")
    yield place
    after = contents(place, without="run")
    assert after == before


@pytest.mark.slow
def test_a_run_that_is_trained_resumed_and_replaced(place: Path) -> None:
    run = place / "run"
    train(params_of(run, epochs=3), restore=True)
    # Of a process that was killed while it wrote hyper-parameters.
    left_over = run / ".tmp-events.out.tfevents.hparams"
    left_over.touch()
    train(params_of(run, epochs=1, overwrite=True))
    assert not left_over.exists()
    # A part with {epoch}, as in params of tfaip 1.2.
    name = "state/checkpoint_{epoch:04d}"
    train(params_of(run, epochs=2, overwrite=True, checkpoint_sub_dir=name))
    assert not (run / "checkpoint").exists()
    train(params_of(run, epochs=3, checkpoint_sub_dir=name), restore=True)
    assert [path.name for path in CheckpointStore(run / "state").checkpoints()] == ["epoch_0003", "epoch_0002"]
    assert json.loads((run / "trainer_params.json").read_text())["checkpoint_sub_dir"] == name


# Names that were taken, and removed what is beside the run or all that is in it.
@pytest.mark.parametrize(
    ("field", "value"),
    [("best_model_name", ".."), ("checkpoint_sub_dir", "../checkpoint"), ("checkpoint_sub_dir", "best/inside")],
)
def test_names_from_python_and_in_a_stored_params_file(field, value, place: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    expected, file = f"{field} is .*, expected the name of a directory", place / "run" / "trainer_params.json"
    stored = json.loads(file.read_text())
    (stored["early_stopping"] if field == "best_model_name" else stored)[field] = value
    before, params = contents(place), params_of(place / "run", epochs=3, overwrite=True)
    for restore in (False, True):
        trainer = LineScenario.create_trainer(params, restore=restore)
        setattr(trainer.params.early_stopping if field == "best_model_name" else trainer.params, field, value)
        with pytest.raises(UsageError, match=expected):
            trainer.train()
        assert contents(place) == before
    file.write_text(json.dumps({**stored, "epochs": 3}))
    before = contents(place)
    assert exit_code(resume_training.main, [str(place / "run")]) == 2
    assert exit_code(train_from_params.main, [str(file), "--trainer.output_dir", str(place / "new")]) == 2
    for line in capsys.readouterr().err.splitlines():
        assert line.startswith("error: ")
        assert f"{field} is " in line
    assert contents(place) == before


@pytest.mark.slow
def test_the_command_makes_a_directory_of_its_own(place, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    monkeypatch.setattr("tfaip.scripts.train.time.strftime", lambda *form: "20260102-030405")
    taken, made = (place.parent / "own" / "runs" / f"line-20260102-030405{end}" for end in ("", "-2"))
    taken.mkdir(parents=True)
    monkeypatch.chdir(place.parent / "own")
    command = [str(place / "run" / "trainer_params.json"), "--trainer.epochs", "1"]
    # Of a run that fails nothing is left.
    assert exit_code(train_from_params.main, [*command, "--warmstart.model", "nowhere"]) != 0
    assert f"run directory runs/{made.name} (--trainer.output_dir names another one)" in capsys.readouterr().out
    assert train_from_params.main([*command, "--dry_run"]) == 0
    assert [path.name for path in made.parent.iterdir()] == [taken.name]
    assert train_from_params.main(command) == 0
    assert (made / "trainer_params.json").exists()
    assert list(taken.iterdir()) == []


def test_a_params_file_of_no_run_may_name_the_output_directory(place, capsys, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", keras.backend.backend())
    own = place.parent / "own"
    own.mkdir()
    file, named = own / "params.json", own / "named"
    stored = json.loads((place / "run" / "trainer_params.json").read_text())
    file.write_text(json.dumps({**stored, "output_dir": str(named)}))
    assert train_from_params.main([str(file), "--trainer.epochs", "1"]) == 0
    assert json.loads((named / "trainer_params.json").read_text())["epochs"] == 1
    assert f"the output directory is that of the params file: '{named}'" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["best", "export", "checkpoint", "train", "train/plugins", "train.log"])
def test_links_out_of_the_run(name: str, place: Path) -> None:
    run = place / "run"
    if (run / name).is_dir():
        shutil.rmtree(run / name)
    else:
        (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(place / "other" / name)
    with pytest.raises(UsageError, match=f"run/{name} is a link: a run writes within its own directory only"):
        train(params_of(run, epochs=3), restore=True)
    if name != "train/plugins":  # no run writes such a link, and its target may be anything
        train(params_of(run, epochs=1, overwrite=True))
        assert not (run / name).is_symlink()


@pytest.mark.parametrize("name", ["best", "checkpoint/epoch_0008"])
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_files_of_a_user_with_names_of_the_run(name: str, kind: str, place: Path) -> None:
    """They are neither replaced nor removed."""
    path = place / "run" / name
    if path.is_dir():
        shutil.rmtree(path)
    if kind == "directory":
        path.mkdir()
        (path / "thesis.tex").write_text("years of work")
    elif kind == "link":
        path.symlink_to(place / "best")
    else:
        path.write_text("years of work")
    before = contents(place)
    if kind != "link" or name != "best":
        with pytest.raises(UsageError, match=f"{name}.* is not what a run writes: move it away"):
            train(params_of(place / "run", epochs=1, overwrite=True))
        assert contents(place) == before
    with pytest.raises(TfaipError, match=f"{name} is (neither replaced nor removed|a link)"):
        train(params_of(place / "run", epochs=9), restore=True)
    assert contents(place)[f"run/{name}"] == before[f"run/{name}"]
    assert kind != "directory" or (path / "thesis.tex").exists()


def test_a_copy_of_a_checkpoint_is_not_resumed_under_its_own_name(place: Path) -> None:
    """All others would be newer than it, and removed."""
    run = place / "run"
    shutil.copytree(run / "checkpoint" / "epoch_0001", run / "checkpoint" / "backup")
    before = contents(place)
    trainer = LineScenario.create_trainer(params_of(run, epochs=3), restore=True, checkpoint="backup")
    with pytest.raises(UsageError, match="checkpoint backup cannot be used: its name tells no epoch"):
        trainer.train()
    assert contents(place) == before
