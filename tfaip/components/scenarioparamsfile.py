"""File of the scenario params in a model directory (`best/`, `export/`)."""

from __future__ import annotations

from pathlib import Path

from tfaip.errors import UsageError

SCENARIO_PARAMS_FILE = "scenario_params.json"


def require_model(path: Path) -> None:
    """Raise unless a directory may be that of an exported model.

    Raises:
        UsageError: if it has no scenario params; the message says what it holds instead.
    """
    if not (path / SCENARIO_PARAMS_FILE).is_file():
        raise UsageError(f"no exported model at {path}: {_what_is_there(path)}")


def _what_is_there(path: Path) -> str:
    if not path.is_dir():
        return "not a directory" if path.exists() else "the path does not exist"
    models = sorted(str(file.parent) for file in path.glob(f"*/{SCENARIO_PARAMS_FILE}"))
    if models:
        return f"it holds exported models, give one of them: {', '.join(models)}"
    return f"the directory has no {SCENARIO_PARAMS_FILE} (expected best/ or export/ of a run)"
