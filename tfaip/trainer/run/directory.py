"""Directory of a run: its paths, and the checks before it is used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfaip.components.modelfiles import is_model
from tfaip.errors import TfaipError, UsageError
from tfaip.params.fields import FieldAdvice
from tfaip.trainer.run import names
from tfaip.trainer.run.names import DONE_FILE, HISTORY_FILE, LOG_FILE, PARAMS_FILE, STAGE_FILE
from tfaip.util import files
from tfaip.util.logging import logger
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS, ModelDirectory, shown_names
from tfaip.util.reading import read_json
from tfaip.util.text import shorten_text

# Of a stage; the second one of a process that was killed before the first had its name.
STAGE_MARKS = (STAGE_FILE, files.TEMPORARY_PREFIX + STAGE_FILE)

log = logger(__name__)


class RunDirectory:
    """Paths below `trainer.output_dir`, and the checks before it is used.

    Raises:
        UsageError: if a name leads out of the directory, is used twice or is reserved.
    """

    def __init__(
        self,
        root: Path,
        checkpoint_sub_dir: str = names.CHECKPOINT_DIR,
        best_model_name: str = names.BEST_DIR,
        params_copy: str = "",
    ) -> None:
        names.check_directory_names(checkpoint_sub_dir, best_model_name, params_copy)
        self.root, self.params_copy = root, params_copy
        self.params_file, self.history_file, self.log_file = root / PARAMS_FILE, root / HISTORY_FILE, root / LOG_FILE
        self._files = [PARAMS_FILE, HISTORY_FILE, LOG_FILE, names.HPARAMS_FILE, *filter(None, [params_copy])]
        self.checkpoints = root / names.checkpoint_directory(checkpoint_sub_dir)
        self.best, self.export, self.stages = (root / n for n in (best_model_name, names.EXPORT_DIR, names.STAGES_DIR))

    @classmethod
    def stored(cls, root: Path) -> RunDirectory:
        """Return the directory of an existing run, with the names in its params file if these are usable.

        For readers of a run that do not need its params, which perhaps cannot be loaded.
        """
        try:
            content = read_json(root / PARAMS_FILE)
            groups = [content.get(key) for key in ("early_stopping", "scenario")]
            stopping, scenario = (group if isinstance(group, dict) else {} for group in groups)
            best = stopping.get("best_model_name") or scenario.get("default_serve_dir") or names.BEST_DIR
            copied = scenario.get("trainer_params_filename", "")
            return cls(root, content.get("checkpoint_sub_dir", names.CHECKPOINT_DIR), best, copied)
        except TfaipError:
            return cls(root)

    def stage_directories(self) -> StageDirectories:
        """Return the directories of the stages."""
        return StageDirectories(self.root, self.stages)

    def check_free(self, overwrite: bool) -> None:
        """Raise unless a new run may use the directory; change nothing.

        A run that ended before its first checkpoint or epoch is no obstacle: there is nothing to continue, and nothing
        to lose.
        """
        # The first file that a run writes may be there half-written, by a run that was killed.
        # A log alone is that of a start that failed.
        begun = {files.TEMPORARY_PREFIX + PARAMS_FILE, LOG_FILE}
        if not self.root.exists() or (self.root.is_dir() and all(e.name in begun for e in self.root.iterdir())):
            return
        shown = shorten_text(str(self.root), 160)
        if not self.params_file.exists():
            # Only a run may be replaced: a mistyped path must never cost a user other files.
            text = f"{shown} exists and is not the directory of a run: choose a new or empty {{output_dir}}"
            raise FieldAdvice(text, "output_dir")
        if not overwrite and not self.may_begin_again():
            text = f"continue that run with 'tfaip-resume-training {shown}', or replace it with --overwrite"
            raise FieldAdvice(f"{shown} holds another run: choose another {{output_dir}}, {text}", "output_dir")
        for path in self.foreign_entries():
            if overwrite or path.parent != self.root:
                text = f"{shorten_text(str(path), 160)} is not what a run writes: move it away"
                raise FieldAdvice(f"{text}, or choose another {{output_dir}}", "output_dir")

    def claim(self, overwrite: bool) -> None:
        """Make the (locked) directory that of a new run: check it once more, then remove the existing run.

        The directory itself stays: it may be a link, a mount point or the working directory. The params file, which
        marks the directory of a run, is removed last: a process that is killed here leaves a directory that can still
        be replaced.
        """
        self.check_free(overwrite)
        others = self.foreign_entries()
        for entry in sorted(self.root.iterdir()):
            if entry not in others and entry != self.params_file:
                files.remove_entry(entry)
        if not others:
            self.params_file.unlink(missing_ok=True)

    def foreign_entries(self) -> list[Path]:
        """Return what is in the directory, at the places where a run writes, and no run has written."""
        run = RunDirectory.stored(self.root)
        places = run._places()
        known = {path.name for path in places}
        entries = sorted(self.root.iterdir())
        found = [path for path in entries if files.final_name(path) not in known and not names.is_id_file(path)]
        for path, is_own in places.items():
            if path.is_symlink() or not path.exists() or (path.name in run._files and path.is_file()):
                continue  # a link is removed, not what it leads to
            if path.is_dir() and is_own is not None:
                found += [entry for entry in sorted(path.iterdir()) if not is_own(entry)]
            elif path in (run.best, run.export) and files.is_ours(path, MODEL_MARKS):
                found += [path / added for added in ModelDirectory.at(path).foreign_entries()]
            else:
                found.append(path)
        return found

    def may_begin_again(self) -> bool:
        """Return True if the directory contains a run that ended before its first checkpoint and epoch.

        A best model that is there belongs to the epoch that was not completed: only then the history is there too, and
        empty.
        """
        run = RunDirectory.stored(self.root)
        if not self.params_file.exists():
            return False
        saved = run.checkpoints.iterdir() if run.checkpoints.is_dir() else [run.checkpoints]
        kept = [path for path in saved if not path.name.startswith(files.TEMPORARY_PREFIX)]
        kept += [run.export, *run.stages.glob(f"*/{DONE_FILE}")]
        has_history = self.history_file.exists()
        if any(map(os.path.lexists, kept if has_history else [*kept, run.best])):
            return False
        try:
            return not has_history or read_json(self.history_file) == {}
        except TfaipError:
            return False

    def check_resumable(self) -> None:
        """Raise a UsageError if something that a continued run writes to is a link, which may lead elsewhere."""
        events = [path for directory in self._event_directories() for path in directory.rglob("*")]
        for path in (*self._places(), *events):
            if path.is_symlink():
                text = "a run writes within its own directory only; put there what it leads to"
                raise UsageError(f"{shorten_text(str(path), 160)} is a link: {text}")

    def restore_best(self, kept: Path | None, checkpoint: str) -> None:
        """Set `best/` back to its content at a checkpoint; later epochs are abandoned."""
        best = self.best
        if kept is None:
            if best.exists():
                files.remove_directory(best, self.root, MODEL_MARKS)
                log.info("%s is gone: at checkpoint %s there was no best model", best, checkpoint)
            return
        there, copied = ModelDirectory.at(best), ModelDirectory.at(kept)
        damage = copied.damage()
        if damage is not None:
            log.warning("the best model of checkpoint %s is damaged, %s stays as it is: %s", checkpoint, best, damage)
        elif there.model_files() != copied.model_files() or there.damage() is not None:
            lost = [name for name in [*there.added_formats, *there.foreign_entries()] if not (kept / name).exists()]
            with files.commit_directory(best, MODEL_MARKS) as directory:
                files.link_tree(kept, directory)
            log.info("%s is again what it was at checkpoint %s", best, checkpoint)
            if lost:
                log.warning("files that belonged to another model are gone from %s: %s", best, shown_names(lost))

    def _places(self) -> dict[Path, Callable[[Path], bool] | None]:
        """Return where a run writes: files and models, and directories with a test of what is in them."""
        plain = dict.fromkeys([*(self.root / name for name in self._files), self.best, self.export])
        tests = {self.stages: _is_of_stages, self.checkpoints: _is_saved}
        return {**plain, **tests, **dict.fromkeys(self._event_directories(), _is_of_events)}

    def _event_directories(self) -> list[Path]:
        entries = self.root.iterdir() if self.root.is_dir() else ()
        return [path for path in entries if names.EVENTS_NAME.fullmatch(path.name)]

    def identity(self) -> tuple[int, int] | None:
        """Return device and number of the directory, which another one of its name has not; None: it is missing."""
        try:
            status = self.root.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status.st_dev, status.st_ino

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Create the directory and lock it for this process; the lock also ends when the process dies."""
        shown = shorten_text(str(self.root), 160)
        taken = FieldAdvice(f"another process trains in {shown}: choose another {{output_dir}}", "output_dir")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"cannot create the output directory {shown}: {error.strerror}") from error
        with files.locked_directory(self.root, taken):
            yield

    def clean_up(self) -> None:
        """Remove the half-written files of a killed process; a stage and `CheckpointStore` remove their own."""
        known = {path.name for path in self._places()}
        files.remove_temporaries(self.root, lambda name: name in known)
        for path in self._event_directories():
            if path.is_dir() and not path.is_symlink():
                files.remove_temporaries(path, lambda name: name.startswith(names.EVENT_FILES))


def _is_of_stages(path: Path) -> bool:
    return path.name.startswith(files.TEMPORARY_PREFIX) or files.is_ours(path, STAGE_MARKS)


def _is_of_events(path: Path) -> bool:
    if path.name == names.PLUGINS_DIR and path.is_dir():
        return {entry.name for entry in path.iterdir()} <= {"profile"}
    return files.final_name(path).startswith(names.EVENT_FILES) and not path.is_dir()


def _is_saved(path: Path) -> bool:
    """Return True for a checkpoint, or a half-written one."""
    if names.CHECKPOINT_NAME.fullmatch(files.final_name(path)) is None:
        return False
    if path.name != files.final_name(path):
        return True
    known = {*CHECKPOINT_MARKS, names.BEST_DIR}
    return files.is_ours(path, CHECKPOINT_MARKS) and {entry.name for entry in path.iterdir()} <= known


def model_of_run(root: Path) -> Path | None:
    """Return the best model of a run, else its final one, or None."""
    run = RunDirectory.stored(root)
    for model in (run.best, run.export):
        if is_model(model):
            return model
    return None


def find_run(path: Path) -> tuple[Path, str | None]:
    """Find the run of a path: its directory, its directory of checkpoints, or one checkpoint."""
    shown = shorten_text(str(path), 160)
    if not os.path.exists(path):
        raise UsageError(f"no run at {shown}: the path does not exist")
    # `.` and `..` have parents only when they are resolved.
    for start in (path, path.resolve()):
        for depth, root in enumerate([start, *start.parents][:3]):
            if (root / PARAMS_FILE).is_file():
                if depth < 2:
                    return root, None
                if start.parent == RunDirectory.stored(root).checkpoints:
                    return root, start.name
    raise UsageError(f"no run at {shown}: expected a directory with {PARAMS_FILE}, or a checkpoint inside of one")


class StageDirectories:
    """Directories of the stages of one run (`directory`: the directory that contains those of the stages)."""

    def __init__(self, root: Path, directory: Path) -> None:
        self.root = root.absolute()
        self._directory = directory.absolute()

    def path(self, name: str) -> Path:
        """Return the directory of a stage."""
        return self._directory / name

    def state(self, name: str) -> Path:
        """Return the directory of the checkpoint at the end of a stage, which may be missing."""
        return self.path(name) / names.STAGE_STATE_DIR

    def records(self) -> list[dict[str, Any]]:
        """Return the records of all stages that have begun, in order; those that are done have a `result`."""
        found = []
        for file in self._directory.glob(f"[!.]*/{STAGE_FILE}"):
            record, done = read_json(file), file.with_name(DONE_FILE)
            if record.get("name") != file.parent.name or not isinstance(record.get("number"), int):
                raise UsageError(f"{file} is damaged, or its directory has another name")
            if done.is_file():
                record["result"] = read_json(done)
            found.append(record)
        return sorted(found, key=lambda record: record["number"])

    def begin(self, record: Mapping[str, Any]) -> Path:
        """Create the empty directory of a stage; what a process wrote that was killed in it is removed."""
        path = self.path(record["name"])
        files.remove_directory(path, self.root, STAGE_MARKS)
        path.mkdir(parents=True)
        files.write_json(path / STAGE_FILE, dict(record))
        return path

    def finish(self, name: str, result: Mapping[str, Any], checkpoint: Path | None) -> None:
        """Store the result of a stage, after all that it has written is on the disk.

        A checkpoint is kept as the state at its end, as links that take no space as long as it exists.
        """
        path = self.path(name)
        if checkpoint is not None:
            with files.commit_directory(self.state(name), CHECKPOINT_MARKS) as directory:
                files.link_tree(checkpoint, directory)
        files.sync_tree(path)
        files.write_json(path / DONE_FILE, dict(result))

    def forget(self, number: int, kept: str | None = None) -> None:
        """Remove the directories of the stages that will run again: this one and those after it.

        The last one is removed first; of the stage `kept` only the result, so that its number stays known.
        """
        for record in reversed(self.records()):
            if record["number"] >= number:
                path = self.path(record["name"])
                if not path.is_symlink():  # a link is refused below: what it leads to is not the run's
                    (path / DONE_FILE).unlink(missing_ok=True)
                if record["name"] != kept:
                    files.remove_directory(path, self.root, STAGE_MARKS)
