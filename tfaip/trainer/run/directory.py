"""Directory of a run: its paths, and the checks before it is used."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfaip.components.modelfiles import is_model
from tfaip.errors import TfaipError, UsageError
from tfaip.params.fields import FieldAdvice
from tfaip.trainer.run import names
from tfaip.trainer.run.names import DONE_FILE, HISTORY_FILE, LOG_FILE, PARAMS_FILE, STAGE_FILE
from tfaip.util import files
from tfaip.util.manifest import CHECKPOINT_MARKS, MODEL_MARKS, ModelDirectory, read_json_object
from tfaip.util.reading import read_json
from tfaip.util.text import shorten, shorten_text

# Of a stage; the second one of a process that was killed before the first had its name.
STAGE_MARKS = (STAGE_FILE, files.TEMPORARY_PREFIX + STAGE_FILE)


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
        problem = files.path_problem(root)
        if problem is not None:
            raise UsageError(f"{shorten(str(root))} is not a directory of a run: the path {problem}")
        names.check_directory_names(checkpoint_sub_dir, best_model_name, params_copy)
        self.root, self.params_copy = root, params_copy
        self.params_file, self.history_file, self.log_file = root / PARAMS_FILE, root / HISTORY_FILE, root / LOG_FILE
        self._files = [PARAMS_FILE, HISTORY_FILE, LOG_FILE, names.HPARAMS_FILE, *filter(None, [params_copy])]
        self.checkpoints = root.joinpath(*names.checkpoint_parts(checkpoint_sub_dir))
        self.best, self.export, self.stages = (root / n for n in (best_model_name, names.EXPORT_DIR, names.STAGES_DIR))

    @classmethod
    def stored(cls, root: Path) -> RunDirectory:
        """Return the directory of an existing run, with the names in its params file if these are usable.

        For readers of a run that do not need its params, which perhaps cannot be loaded.
        """
        try:
            content = read_json_object(root / PARAMS_FILE)
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

    def possible_runs(self) -> list[RunDirectory]:
        """Return the paths that an existing run may have: flags may have changed their names."""
        return [self, RunDirectory.stored(self.root), RunDirectory(self.root)]

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
        if not self.root.exists():
            return
        others = self.foreign_entries()
        for entry in sorted(self.root.iterdir()):
            if entry not in others and entry != self.params_file:
                files.remove_entry(entry)
        if not others:
            self.params_file.unlink(missing_ok=True)

    def foreign_entries(self) -> list[Path]:
        """Return what is in the directory, at the places where a run writes, and no run has written."""
        runs = self.possible_runs()
        plain = {self.root / name for run in runs for name in run._files}
        models = {self.export, *(run.best for run in runs)}
        checkpoints = {run.checkpoints for run in runs}
        stores = {parent for path in checkpoints for parent in (path, *path.parents) if self.root in parent.parents}
        known = {path.name for path in (*plain, *models, *stores, self.stages) if path.parent == self.root}

        def is_of_run(path: Path) -> bool:
            name = files.final_name(path)
            return name in known or names.EVENTS_NAME.fullmatch(name) is not None or names.is_id_file(path)

        def is_of_store(path: Path) -> bool:
            return path in stores or (path.parent in checkpoints and _is_saved(path))

        tests: dict[Path, Callable[[Path], bool]] = {self.root: is_of_run, self.stages: _is_of_stages}
        tests |= dict.fromkeys(self._event_directories(), _is_of_events) | dict.fromkeys(sorted(stores), is_of_store)
        found = []
        for path in (*tests, *models, *plain):
            is_link = path.is_symlink() and path != self.root
            if is_link or not path.exists() or (path in plain and path.is_file()):
                continue  # a link is removed, not what it leads to
            if path in models and files.is_ours(path, MODEL_MARKS):
                found += [path / added for added in ModelDirectory.at(path).foreign_entries()]
            elif path in tests and path.is_dir():
                found += [entry for entry in sorted(path.iterdir()) if not tests[path](entry)]
            else:
                found.append(path)
        return found

    def may_begin_again(self) -> bool:
        """Return True if the directory contains a run that ended before its first checkpoint and epoch.

        A best model that is there belongs to the epoch that was not completed: only then the history is there too, and
        empty. Links may lead to results that cannot be read now.
        """
        runs = self.possible_runs()
        if not self.params_file.exists() or any(path.is_symlink() for run in runs for path in run._paths()):
            return False
        for path in {run.checkpoints for run in runs if run.checkpoints.exists()}:
            # Something else is in the place of the checkpoints than a half-written one.
            if not path.is_dir() or any(not saved.name.startswith(files.TEMPORARY_PREFIX) for saved in path.iterdir()):
                return False
        if self.export.exists() or (self.stages.is_dir() and any(self.stages.glob(f"*/{DONE_FILE}"))):
            return False
        if not self.history_file.exists():
            return not any(run.best.exists() for run in runs)
        try:
            return read_json_object(self.history_file) == {}
        except TfaipError:
            return False

    def check_resumable(self) -> None:
        """Raise a UsageError if something that a continued run writes to is a link, which may lead elsewhere."""
        events = [path for directory in self._event_directories() for path in directory.rglob("*")]
        for path in (*self._paths(), *events):
            if path.is_symlink():
                text = "a run writes within its own directory only; put there what it leads to"
                raise UsageError(f"{shorten_text(str(path), 160)} is a link: {text}")

    def _paths(self) -> list[Path]:
        """Return the paths that a run writes to and that may exist already."""
        stores = [parent for parent in (self.checkpoints, *self.checkpoints.parents) if self.root in parent.parents]
        own = [self.root / name for name in self._files]
        return [*own, self.best, self.export, self.stages, *stores, *self._event_directories()]

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
        """Remove the half-written files of a killed process."""
        own = {PARAMS_FILE, HISTORY_FILE, names.HPARAMS_FILE, self.params_copy, names.EXPORT_DIR, self.best.name}
        files.remove_temporaries(self.root, lambda name: name in own)
        for path in self._event_directories():
            if path.is_dir() and not path.is_symlink():
                files.remove_temporaries(path, lambda name: name.startswith(names.EVENT_FILES))
        self.stage_directories().clean_up()


def _is_of_stages(path: Path) -> bool:
    return path.name.startswith(files.TEMPORARY_PREFIX) or files.is_ours(path, STAGE_MARKS)


def _is_of_events(path: Path) -> bool:
    if path.name == names.PLUGINS_DIR and path.is_dir():
        return {entry.name for entry in path.iterdir()} <= {"profile"}
    return files.final_name(path).startswith(names.EVENT_FILES) and not path.is_dir()


def _is_saved(path: Path) -> bool:
    """Return True for a checkpoint, a half-written one, and the file that names the newest one."""
    if path.name == names.LATEST_FILE:
        return not path.is_dir()
    if path.name != files.final_name(path):
        return names.is_of_checkpoints(files.final_name(path))
    has_user_files = path.is_dir() and {entry.name for entry in path.iterdir()} - {*CHECKPOINT_MARKS, names.BEST_DIR}
    return names.is_of_checkpoints(path.name) and files.is_ours(path, CHECKPOINT_MARKS) and not has_user_files


def model_of_run(root: Path) -> Path | None:
    """Return the best model of a run, else its final one, or None."""
    run = RunDirectory.stored(root)
    for model in (run.best, run.export):
        if is_model(model):
            return model
    return None


def find_run(path: Path) -> tuple[Path, str | None]:
    """Find the run of a path: its directory, its directory of checkpoints, or one checkpoint."""
    problem = files.path_problem(path)
    if problem is not None:
        raise UsageError(f"no run at {shorten(str(path))}: the path {problem}")
    shown = shorten_text(str(path), 160)
    if not path.exists():
        raise UsageError(f"no run at {shown}: the path does not exist")
    # `.` and `..` have parents only when they are resolved.
    for start in (path, path.resolve()):
        for depth, root in enumerate([start, *start.parents][: names.MAX_PARTS + 2]):
            if not (root / PARAMS_FILE).is_file():
                continue
            checkpoints = RunDirectory.stored(root).checkpoints
            if depth < 2 or checkpoints.is_relative_to(start):
                return root, None
            if depth == 2 or start.parent == checkpoints:
                return root, start.name
    raise UsageError(f"no run at {shown}: expected a directory with {PARAMS_FILE}, or a checkpoint inside of one")


class StageDirectories:
    """Directories of the stages of one run.

    Args:
        root: directory of the run.
        directory: the directory that contains those of the stages.
    """

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
        for path in self._directory.iterdir() if self._directory.is_dir() else ():
            if (path / STAGE_FILE).is_file():
                record = read_json(path / STAGE_FILE)
                named = record.get("name") == path.name and isinstance(record.get("kind"), str)
                if type(record.get("number")) is not int or not named:
                    raise UsageError(f"{path / STAGE_FILE} has {shorten(record)}: it is damaged")
                if (path / DONE_FILE).is_file():
                    record["result"] = read_json(path / DONE_FILE)
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

    def clean_up(self) -> None:
        """Remove the half-written files of a killed process."""
        if self._directory.is_dir():
            files.remove_temporaries(self._directory, lambda name: True)
            for path in self._directory.iterdir():
                if path.is_dir() and not path.is_symlink():
                    files.remove_temporaries(path, lambda name: True)
