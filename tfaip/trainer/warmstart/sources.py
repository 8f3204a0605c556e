"""Sources of weights: exported models, runs, checkpoints, SavedModels."""

from __future__ import annotations

from pathlib import Path

from tfaip.components.modelfiles import find_former_model
from tfaip.errors import UsageError
from tfaip.export.savedmodelformat import SERVE_DIR
from tfaip.export.savedmodelvariables import VARIABLES_DIR, is_saved_model, read_saved_model
from tfaip.model.weights import WEIGHTS_FILE, load_weights_of
from tfaip.model.weightsource import Source
from tfaip.trainer.run.checkpoint import ARRAYS_FILE, Checkpoint, CheckpointStore, read_checkpoint
from tfaip.trainer.run.directory import RunDirectory, model_of_run
from tfaip.trainer.run.names import PARAMS_FILE
from tfaip.util.paths import path_problem
from tfaip.util.text import shorten

_WEIGHTS = "weights/"
_AVERAGES = "optimizer/average/"


def read_source(path: str | Path, trim_graph_name: bool = True) -> Source:
    """Read the weights at `path`.

    Args:
        path: an exported model (`best/`, `export/`), the directory of a run (its best model, else its final one, else
            its newest checkpoint), a checkpoint or a directory of checkpoints (averaged weights if it has them),
            or a SavedModel. Models, runs and checkpoints of tfaip 1.2 are SavedModels.
        trim_graph_name: for a SavedModel, see `read_saved_model`.

    Raises:
        UsageError: if there is nothing of this kind.
        TfaipError: if it is damaged.
    """
    path = Path(path)
    problem = path_problem(path)
    if problem is not None:
        raise UsageError(f"no model at {shorten(str(path))}: the path {problem}")
    if not path.is_dir():
        raise UsageError(f"no model at {path}: {'not a directory' if path.exists() else 'the path does not exist'}")
    if (path / WEIGHTS_FILE).is_file():
        return Source(str(path), load_weights_of(path))
    if (path / ARRAYS_FILE).is_file():
        return _of_checkpoint(path, read_checkpoint(path))
    former = find_former_model(path)
    if former is not None:
        return read_saved_model(former.saved_model, trim_graph_name)
    if (path / PARAMS_FILE).is_file() and not is_saved_model(path):
        return read_source(_model_of_run(path), trim_graph_name)
    store = CheckpointStore(path)
    if store.checkpoints():
        newest = store.read_newest()
        if newest is None:
            raise UsageError(f"all checkpoints in {path} are damaged")
        name, checkpoint = newest
        return _of_checkpoint(path / name, checkpoint)
    # tfaip 1.2 wrote the variables of its checkpoints, as those of a SavedModel, beside the params of the run.
    for directory in (path, path / SERVE_DIR, path.parent if path.name == VARIABLES_DIR else path):
        if is_saved_model(directory):
            return _of_saved_model(directory, trim_graph_name)
    raise UsageError(
        f"no model at {path}: expected an exported model ({WEIGHTS_FILE}), a run ({PARAMS_FILE}), a checkpoint "
        f"({ARRAYS_FILE}) or checkpoints, or a SavedModel (saved_model.pb)"
    )


def _model_of_run(path: Path) -> Path:
    model = model_of_run(path)
    if model is not None:
        return model
    run = RunDirectory.stored(path)
    for directory in (run.checkpoints, *sorted(entry for entry in path.iterdir() if entry.is_dir())):
        if CheckpointStore(directory).checkpoints():
            return directory
    raise UsageError(f"the run {path} holds neither an exported model nor a checkpoint yet")


def _of_checkpoint(path: Path, checkpoint: Checkpoint) -> Source:
    arrays = checkpoint.arrays
    raw = {name.removeprefix(_WEIGHTS): a for name, a in arrays.items() if name.startswith(_WEIGHTS)}
    averages = {name.removeprefix(_AVERAGES): a for name, a in arrays.items() if name.startswith(_AVERAGES)}
    return Source(f"{path} (averaged weights)" if averages else str(path), {**raw, **averages})


def _of_saved_model(path: Path, trim_graph_name: bool) -> Source:
    if path.name == SERVE_DIR and (path.parent / WEIGHTS_FILE).is_file():
        # An export of the toolkit: its weights file has the paths of the weights, a SavedModel does not.
        return Source(str(path), load_weights_of(path.parent))
    return read_saved_model(path, trim_graph_name)
