"""The directory of a run: whose it is, how a run is found again, and the record of what was typed for it."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyScenario
from tfaip.errors import UsageError
from tfaip.params import post_init
from tfaip.params.stored import save_params
from tfaip.params.types import FunctionName
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.run.directory import RunDirectory, find_run
from tfaip.trainer.run.names import PARAMS_FILE, check_directory_names, check_history_file
from tfaip.trainer.run.permission import Permission, read_permission, record_permission
from tfaip.trainer.scheduler import FunctionParams, NewbobRelParams
from tfaip.trainer.stages.params import TrainStage
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """A run with two checkpoints."""
    directory = RunDirectory(tmp_path / "runs" / "a")
    with directory.locked():
        directory.claim(overwrite=False)
    directory.params_file.write_text("{}")
    for name in ("epoch_0001", "epoch_0002"):
        (directory.checkpoints / name).mkdir(parents=True)
    return directory


def test_another_run_is_replaced_only_on_request(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds another run: .*tfaip-resume-training .*runs/a'.*--overwrite"):
        run.check_free(overwrite=False)
    run.check_free(overwrite=True)
    assert run.params_file.exists()  # a check changes nothing
    with pytest.raises(UsageError, match="holds another run"):
        run.claim(overwrite=False)
    # The directory itself stays; links in it are removed, not what they lead to.
    (tmp_path / "link").symlink_to(run.root)
    (tmp_path / "kept").mkdir()
    (run.root / "best").symlink_to(tmp_path / "kept")
    (run.root / "thesis.txt").touch()
    with pytest.raises(UsageError, match="thesis.txt is not what a run writes"):
        RunDirectory(tmp_path / "link").claim(overwrite=True)
    (run.root / "thesis.txt").unlink()
    RunDirectory(tmp_path / "link").claim(overwrite=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "kept").is_dir()
    assert list(run.root.iterdir()) == []
    for overwrite in (False, True):  # what is new or empty is free
        for path in (run.root, tmp_path / "new"):
            RunDirectory(path).check_free(overwrite)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("left", "is_replaced"),
    [
        (["wandb.id", "train.log"], True),
        (["saved/.tmp-epoch_0001"], True),  # killed while it wrote its first checkpoint
        (["best"], True),  # of the epoch whose checkpoint is missing
        (["best", "no history"], False),
        (["stages/tune"], True),
        (["stages/tune/DONE"], False),
        (["export"], False),
        (["an epoch"], False),
        (["saved/epoch_0000_step_000002"], False),
        (["link"], False),  # to a disk that is not there now
    ],
)
def test_a_run_begins_again_only_if_nothing_is_lost(left: list[str], is_replaced: bool, tmp_path: Path) -> None:
    """Its data were wrong, say: the command is typed again when they are right. Flags may name other directories."""
    run = RunDirectory(tmp_path / "run")
    run.root.mkdir()
    run.params_file.write_text('{"checkpoint_sub_dir": "saved"}')
    run.history_file.write_text('{"1": {"lr": 0.1}}' if "an epoch" in left else "{}")
    if "no history" in left:
        run.history_file.unlink()
    for name in {*left} - {"an epoch", "no history"}:
        path = run.root / name
        if name == "link":
            (run.root / "saved").symlink_to(tmp_path / "scratch")
        elif path.suffix:
            path.write_text("text")
        else:
            path.mkdir(parents=True)
    before = sorted(run.root.rglob("*"))
    assert run.may_begin_again() is is_replaced
    if is_replaced:
        run.claim(overwrite=False)
        assert list(run.root.iterdir()) == []
        return
    # Also if it got there only after the check, from a process that wrote until now.
    with pytest.raises(UsageError, match="holds another run"):
        run.claim(overwrite=False)
    assert sorted(run.root.rglob("*")) == before


def test_one_process_at_a_time(run: RunDirectory) -> None:
    other = RunDirectory(run.root)
    with run.locked(), pytest.raises(UsageError, match="another process trains in .*runs/a: choose"), other.locked():
        pass
    with run.locked():
        pass


def test_leftovers_are_cleaned_up(run: RunDirectory) -> None:
    elsewhere = run.root.parent / "elsewhere"
    events = ".tmp-events.out.tfevents.0000000001.host.1"
    for path in (run.root / "train", elsewhere):
        path.mkdir(exist_ok=True)
        (path / events).touch()
    (run.root / "train" / ".tmp-of-the-user").touch()
    (run.root / "validation").symlink_to(elsewhere)
    (run.root / ".tmp-best").mkdir()
    run.clean_up()
    assert not (run.root / ".tmp-best").exists()
    assert [path.name for path in (run.root / "train").iterdir()] == [".tmp-of-the-user"]
    assert (elsewhere / events).exists()
    assert run.params_file.exists()


def test_a_run_is_found_by_its_directory_or_from_inside(run: RunDirectory, tmp_path: Path, monkeypatch) -> None:
    assert find_run(run.root) == find_run(run.checkpoints) == (run.root, None)
    assert find_run(run.checkpoints / "epoch_0001") == (run.root, "epoch_0001")
    for directory, path, name in [
        (run.root, Path(), None),
        (run.root, Path("checkpoint/epoch_0002"), "epoch_0002"),
        (run.checkpoints / "epoch_0002", Path(), "epoch_0002"),
    ]:
        monkeypatch.chdir(directory)
        root, checkpoint = find_run(path)
        assert (root.resolve(), checkpoint) == (run.root.resolve(), name)
    for path, message in [
        (tmp_path / "missing", "no run at .*/missing: the path does not exist"),
        (tmp_path, f"no run at .*: expected a directory with {PARAMS_FILE}"),
        *((tmp_path / name, "no run at .*: the path does not exist") for name in ("x" * 256, "a\0b")),
    ]:
        with pytest.raises(UsageError, match=message) as caught:
            find_run(path)
        assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    "content", ["[]", "{", '{"checkpoint_sub_dir": "..", "early_stopping": []}', '{"early_stopping": 3}']
)
def test_unusable_stored_names_are_those_of_no_directory(content: str, tmp_path: Path) -> None:
    (tmp_path / PARAMS_FILE).write_text(content)
    assert vars(RunDirectory.stored(tmp_path)) == vars(RunDirectory(tmp_path))


SUB, BEST = '{"checkpoint_sub_dir": "my"}', '{"early_stopping": {"best_model_name": "my"}}'


@pytest.mark.parametrize(
    ("stored", "file"),
    [
        *((SUB, file) for file in ("my/thesis.tex", "my", "my/epoch_0001/thesis.tex", "notes.txt", ".tmp-notes.txt")),
        *((BEST, file) for file in ("my/thesis.tex", "my", "my.id/x")),
        *(("{}", file) for file in ("checkpoint", "checkpoint/epoch_0001/thesis.tex", "history.json/thesis.tex")),
        *(("{}", file) for file in ("train/thesis.tex", "stages/thesis.tex", "export/thesis.tex", "best/thesis.tex")),
        *(("{}", file) for file in ("stages/mine/x", "train/plugins/own/x", "checkpoint/backup/state.json")),
    ],
)
def test_what_stored_params_name_is_removed_only_if_a_run_has_written_it(stored, file, tmp_path: Path) -> None:
    (tmp_path / PARAMS_FILE).write_text(stored)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.parent.name in ("epoch_0001", "best"):  # what is beside it is a checkpoint, or a model
        for name in MODEL_MARKS if path.parent.name == "best" else CHECKPOINT_MARKS:
            (path.parent / name).touch()
        RunDirectory(tmp_path).check_free(overwrite=True)
    path.write_text("years of work")
    with pytest.raises(UsageError, match=f"{file.split('/')[0]}.* is not what a run writes: move it away"):
        RunDirectory(tmp_path).claim(overwrite=True)
    if stored == "{}":
        with pytest.raises(UsageError, match="holds another run|is not what a run writes"):
            RunDirectory(tmp_path).check_free(overwrite=False)
    assert path.read_text() == "years of work"


PARAMS = TutorialScenario.trainer_params_cls()
OUTSIDE = ["..", "../other", "best/../..", "/etc", "/", "a/b"]
RESERVED = [".tmp-ck", "trainer_params.json", "train.log", "epoch_0008", "export", "Train", "lav_l12"]
IMPOSSIBLE = ["", ".", "a\0b", "x" * 246, "ü" * 123, "a\nb", "\ud800", "{epoch", "{step}"]


def test_names_that_directories_cannot_have(tmp_path: Path) -> None:
    bad = [*OUTSIDE, *RESERVED, *IMPOSSIBLE]
    several = [("checkpoint", "Checkpoint"), ("Best", "best"), ("checkpoint", "best", "BEST")]
    copies = [("checkpoint", "best", name) for name in bad if name]
    for names in [*((name, "best") for name in bad), *(("checkpoint", name) for name in bad), *several, *copies]:
        with pytest.raises(ValueError, match=r"is '.*', expected the name of .*\(it .*\)$") as caught:
            check_directory_names(*names)
        assert len(str(caught.value)) <= 300
        assert "\n" not in str(caught.value)
    for value, name in [
        ("ckpt 1.2", "ckpt 1.2"),
        # As clients of tfaip 1.2 set it: a directory per epoch, which each checkpoint has anyway.
        ("checkpoint/checkpoint_{epoch:04d}", "checkpoint"),
        *(("saved/{epoch}/model", "saved"), ("checkpoint_{epoch:04d}", "checkpoint"), ("x" * 245, "x" * 245)),
    ]:
        check_directory_names(value, "best")
        assert RunDirectory(tmp_path, value).checkpoints == tmp_path / name


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 246])
def test_output_directories_that_cannot_be(name: str) -> None:
    params = PARAMS()
    params.output_dir = name
    with pytest.raises(UsageError, match=r"^output_dir is .*, expected a directory \(it .*\)(, or None)?$"):
        post_init(params) if name else params.run_directory()


def test_files_that_the_history_cannot_be_kept_in(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("run")
    params, inside = PARAMS(), "is in the place of something else in the run"
    for file, problem in [
        ("a\0b", "holds a NUL character"),
        *((f"run/{name}", inside) for name in ("trainer_params.json", "train.log", "checkpoint/a", "train/a")),
        *((f"{name}/best/rates.json", inside) for name in ("run", "link", "run/../run")),
    ]:
        params.output_dir, params.history_file = "run", file
        with pytest.raises(ValueError, match=rf"history_file is .*, expected a file of its own \(it {problem}.*\)$"):
            post_init(params)
    for kept in ("rates.json", "run/history.json", "run/rates.json", "runs/best/rates.json"):
        check_history_file(kept, "run")
        check_history_file(kept, None)


# `test` is the package of the scenario, which needs no permission.
EXPECTED = Permission(("statistics",))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "tfaip" / "runs"


def stored(run: Path, **changes: Any) -> Path:
    """Store params that name a function, with a record; returns their file."""
    params = replace(TinyScenario.default_trainer_params(), **changes)
    params.learning_rate = FunctionParams(function=FunctionName("statistics:mean"))
    run.mkdir(exist_ok=True)
    file = run / "trainer_params.json"
    record_permission(file, params, TinyScenario, Permission())
    save_params(file, params)
    return file


def test_overrides_of_stages_are_typed_too(tmp_path: Path) -> None:
    stages = {"a": TrainStage(epochs=1, overrides={"learning_rate.decay": "colorsys:rgb_to_hls"})}
    assert read_permission(stored(tmp_path / "run", stages=stages)) == Permission(("statistics", "colorsys"))


def test_a_function_without_a_mark_of_the_package_of_the_scenario_is_typed_too(tmp_path: Path) -> None:
    for name, expected in (("halve", Permission(("test",))), ("third", Permission())):
        params = replace(TinyScenario.default_trainer_params(), output_dir=str(tmp_path))
        params.learning_rate = NewbobRelParams(decay=FunctionName(f"test.params.test_trust:{name}"))
        record_permission(tmp_path / "trainer_params.json", params, TinyScenario, Permission())
        save_params(tmp_path / "trainer_params.json", params)
        assert read_permission(tmp_path / "trainer_params.json") == expected


def test_a_run_that_is_killed_between_record_and_params_keeps_its_permission(tmp_path: Path, state: Path) -> None:
    file = stored(tmp_path / "run")
    params = TinyScenario.default_trainer_params()
    params.learning_rate = FunctionParams(function=FunctionName("colorsys:rgb_to_hls"))
    record_permission(file, params, TinyScenario, Permission(), is_resumed=True)
    # The old file is still there: what the new one would name is the user's choice as well.
    for _ in range(2):
        assert read_permission(file) == Permission(("colorsys",))
        save_params(file, params)
    file.write_text(file.read_text() + "\n")  # of another run, which is replaced: there is no record of it
    record_permission(file, params, TinyScenario, Permission())
    assert read_permission(file) == Permission()
    save_params(file, params)
    assert read_permission(file) == Permission(("colorsys",))
    assert state.stat().st_mode & 0o777 == 0o700
    # Params that name nothing need no record.
    record_permission(file, TinyScenario.default_trainer_params(), TinyScenario, Permission())
    assert list(state.iterdir()) == []
    assert Permission(("a",), "/x").and_trusted(["b", "a"]) == Permission(("a", "b"), "/x")


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: change(path, run="/elsewhere"),
        lambda path: change(path, params_sha256=[]),
        lambda path: path.write_text(path.read_text()[:-20]),
        lambda path: path.write_text(path.read_text() + " " * 70000),
        lambda path: path.parent.chmod(0o777),
        lambda path: path.unlink(),
        lambda path: path.symlink_to(path.rename(path.with_suffix(".old"))),
    ],
)
def test_a_damaged_record_permits_nothing(damage: Any, tmp_path: Path, state: Path, caplog) -> None:
    file = stored(tmp_path / "run")
    (entry,) = state.iterdir()
    damage(entry)
    with caplog.at_level(logging.INFO, logger="tfaip"):
        assert read_permission(file) == Permission()
    assert caplog.messages == []
