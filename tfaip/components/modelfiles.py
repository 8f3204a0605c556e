"""Files of an exported model: of the toolkit, or of tfaip 1.2 (a SavedModel with params). Loads no backend."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.stored import is_former
from tfaip.util.files import name_problem
from tfaip.util.reading import read_json

SCENARIO_PARAMS_FILE = "scenario_params.json"


def require_model(path: Path) -> None:
    """Raise unless a directory may be that of an exported model."""
    if (path / SCENARIO_PARAMS_FILE).is_file():
        return
    found = f"it has no {SCENARIO_PARAMS_FILE} (expected best/ or export/ of a run)"
    raise UsageError(f"no exported model at {path}: {found if path.exists() else 'the path does not exist'}")


TRAINER_PARAMS_FILE = "trainer_params.json"
_WEIGHTS_FILE, _SAVED_MODEL_FILE = "weights.safetensors", "saved_model.pb"
# Of the files in a directory, which may be any.
_MOST_FILES = 20


@dataclass(frozen=True)
class FormerModel:
    """An exported model of tfaip 1.2.

    Args:
        params_file: has its params.
        key: of the scenario params in the file; None: they are the file.
        saved_model: directory with its weights.
    """

    params_file: Path
    key: str | None
    saved_model: Path

    def trainer_params_file(self) -> Path | None:
        """Return the file with the params of its training; None: there is none."""
        if self.key is not None:
            return self.params_file
        for directory in (self.params_file.parent, self.params_file.parent.parent):
            file = directory / TRAINER_PARAMS_FILE
            if _document(file) is not None:
                return file
        return None


def find_former_model(path: Path) -> FormerModel | None:
    """Return the model of tfaip 1.2 at a path; None: there is none."""
    if (path / _WEIGHTS_FILE).is_file():
        return None
    for file in islice(_params_files(path), _MOST_FILES):
        document = _document(file)
        if document is None:
            continue
        key = "scenario" if isinstance(document.get("scenario"), dict) else None
        scenario = document if key is None else document[key]
        name = scenario.get("default_serve_dir", "serve")
        if name_problem(name) is None and (file.parent / name / _SAVED_MODEL_FILE).is_file():
            return FormerModel(file, key, file.parent / name)
    return None


def is_model(path: Path) -> bool:
    """Return True if a directory, or a file of params, may be that of an exported model."""
    return (path / SCENARIO_PARAMS_FILE).is_file() or find_former_model(path) is not None


def params_file_of(path: Path) -> tuple[Path, str | None]:
    """Return the file with the scenario params of a model, and their key in it (None: they are the file)."""
    former = find_former_model(path)
    if former is not None:
        return former.params_file, former.key
    directory = directory_of(path)
    if path.suffix == ".json" and path.is_file() and not (directory / SCENARIO_PARAMS_FILE).is_file():
        # A copy, or what `to_json` gave: the weights are elsewhere.
        return path, "scenario" if isinstance(read_json(path).get("scenario"), dict) else None
    require_model(directory)
    return directory / SCENARIO_PARAMS_FILE, None


def directory_of(path: Path) -> Path:
    """Return the directory of a model, given it, its file of scenario params, or the file `NAME.json` beside it."""
    if path.suffix != ".json" or not path.is_file():
        return path
    return path.parent if path.name == SCENARIO_PARAMS_FILE else path.with_suffix("")


def _params_files(path: Path) -> Iterator[Path]:
    if path.suffix == ".json":
        yield path
    elif (path / _SAVED_MODEL_FILE).is_file():
        path = Path(os.path.abspath(path))  # `.` has neither a name nor a parent
        yield path.with_name(f"{path.name}.json")
        yield from (path.parent / name for name in (SCENARIO_PARAMS_FILE, TRAINER_PARAMS_FILE))
    elif path.is_dir():
        yield from sorted(path.glob("*.json"))


def _document(file: Path) -> dict[str, Any] | None:
    """Return the content of a file that tfaip 1.2 wrote; None for any other."""
    if not file.is_file():
        return None
    try:
        document = read_json(file)
    except UsageError:
        return None
    return document if is_former(document) else None
