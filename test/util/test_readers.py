"""Every reader of the toolkit refuses what is not a regular file, and what would take any amount of memory."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from test.util.test_reading import make_circle, make_directory, make_endless, make_huge, make_pipe
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.errors import TfaipError
from tfaip.export.formats import KerasExporter
from tfaip.export.modelloading import load_exported_params
from tfaip.export.onnxformat import OnnxExporter
from tfaip.export.savedmodelformat import ServedModel
from tfaip.export.savedmodelvariables import read_saved_model
from tfaip.export.trainingdata import load_training_data
from tfaip.model.weights import load_arrays, load_weights_of
from tfaip.params.commandline import load_config
from tfaip.params.stored import load_params
from tfaip.predict.samplefile import read_samples
from tfaip.scripts.common.parser import load_trainer_params
from tfaip.trainer.history import read_history
from tfaip.trainer.run.output import read_checkpoint
from tfaip.util.manifest import read_manifest, verify_files, write_manifest

Reader = Callable[[Path], Any]


def of_table(params: CsvGeneratorParams | ListsFileGeneratorParams) -> int:
    return len(params.create(PipelineMode.TRAINING))


# Name of the file -> what reads it; it gets the path of the file, which is in a directory of its own.
READERS: dict[str, Reader] = {
    "flags.yaml": lambda path: load_config(str(path)),
    "flags.json": lambda path: load_config(str(path)),
    "params.json": lambda path: load_params(path, TinyTrainerParams),
    "trainer_params.json": lambda path: load_trainer_params(path, []),
    "scenario_params.json": lambda path: load_exported_params(path.parent),
    "training_data.json": lambda path: load_training_data(path.parent, TinyScenario),
    "history.json": read_history,
    "manifest.json": lambda path: read_manifest(path.parent),
    "state.safetensors": lambda path: read_checkpoint(path.parent),
    "weights.safetensors": lambda path: load_weights_of(path.parent),
    "arrays": load_arrays,
    "samples.jsonl": lambda path: list(read_samples(path)),
    "samples.npz": lambda path: list(read_samples(path)),
    "table.csv": lambda path: of_table(CsvGeneratorParams(files=[str(path)])),
    "list.txt": lambda path: of_table(ListsFileGeneratorParams(lists=[str(path)])),
    "serve.keras": lambda path: KerasExporter.load(path.parent, "serve"),
    "serve.onnx": lambda path: OnnxExporter.load(path.parent, "serve"),
    "saved_model.pb": lambda path: ServedModel(path.parent),
}
# Looked for only if they are files: without one there is no training data, and nothing is read.
OPTIONAL = {"training_data.json"}
KINDS: list[Callable[[Path], None]] = [make_pipe, make_endless, make_directory, make_circle, make_huge]


@pytest.mark.parametrize("name", READERS)
def test_no_reader_waits_or_fills_the_memory(name: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    for make in KINDS:
        with subtests.test(make=make):
            require_refusal(name, make, tmp_path / make.__name__)


def require_refusal(name: str, make: Callable[[Path], None], directory: Path) -> None:
    directory.mkdir()
    make(directory / name)
    tracemalloc.start()
    if name in OPTIONAL and make is not make_huge:
        READERS[name](directory / name)
    else:
        with pytest.raises(TfaipError) as caught:
            READERS[name](directory / name)
        message = str(caught.value).replace(str(directory), "")
        assert "\n" not in message
        assert len(message) <= 300
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 160 << 20  # a line of samples, twice, is the most that any of them holds


def test_a_pipe_among_the_files_of_a_saved_model(tmp_path: Path) -> None:
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables" / "variables.index").touch()
    (tmp_path / "saved_model.pb").touch()
    make_pipe(tmp_path / "variables" / "variables.data-00000-of-00001")
    for read in (read_saved_model, ServedModel):
        with pytest.raises(TfaipError, match="variables.data-00000-of-00001 is a pipe or device, not a regular file"):
            read(tmp_path)


def test_a_file_of_another_size_is_not_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "weights").write_text("abc")
    write_manifest(tmp_path, {})
    make_huge(tmp_path / "weights")  # hashing it would take an hour
    with pytest.raises(TfaipError, match="weights differs from its manifest"):
        verify_files(tmp_path)
