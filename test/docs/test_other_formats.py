"""Generators that the page on data shows for other formats: their files against the same rows in memory."""

from __future__ import annotations

import importlib
import io
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from test.data.support import epoch, make_pipeline
from test.docs.test_docs import write_files
from tfaip.data.generators.arrow import Parquet
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import PipelineMode, Sample

X = np.random.default_rng(0).random((11, 3), dtype="float32")
HALVES = {"a": range(7), "b": range(7, 11)}


def write_hdf5(directory: Path) -> dict[str, Any]:
    import h5py

    with h5py.File(directory / "a.h5", "w") as file:
        file["x"], file["y"] = X, range(11)
    return {"file": str(directory / "a.h5")}


def write_tar(directory: Path) -> dict[str, Any]:
    for name, rows in HALVES.items():
        with tarfile.open(directory / f"{name}.tar", "w") as archive:
            for row in rows:
                array = io.BytesIO()
                np.save(array, X[row])
                for extension, content in (("npy", array.getvalue()), ("cls", str(row).encode())):
                    member = tarfile.TarInfo(f"{row:03}.{extension}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return {"files": [str(directory / f"{name}.tar") for name in HALVES]}


def write_records(directory: Path) -> dict[str, Any]:
    import tensorflow as tf

    for name, rows in HALVES.items():
        with tf.io.TFRecordWriter(str(directory / f"{name}.tfrecord")) as writer:
            for row in rows:
                x = tf.train.Feature(float_list=tf.train.FloatList(value=X[row]))
                y = tf.train.Feature(int64_list=tf.train.Int64List(value=[row]))
                writer.write(tf.train.Example(features=tf.train.Features(feature={"x": x, "y": y})).SerializeToString())
    return {"files": [str(directory / f"{name}.tfrecord") for name in HALVES]}


def write_saved(directory: Path) -> dict[str, Any]:
    import datasets

    datasets.Dataset.from_dict({"x": X, "y": range(11)}).save_to_disk(directory / "saved")
    return {"folder": str(directory / "saved")}


WRITERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "hdf5.Hdf5Rows": write_hdf5,
    "tar.TarShards": write_tar,
    "records.Records": write_records,
    "saved.SavedRows": write_saved,
}


@pytest.fixture(autouse=True)
def no_thread_of_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    """The progress bars of datasets do without a thread that outlives them."""
    monkeypatch.setattr("tqdm.std.tqdm.monitor_interval", 0)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The modules of the page can be imported, also by workers."""
    directory = tmp_path_factory.mktemp("page")
    write_files("data.md", directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(directory)
        yield
        for name in [name for name in sys.modules if name.partition(".")[0] == "formats"]:
            del sys.modules[name]


def shown(name: str) -> Any:
    """A class of the page."""
    module, _, cls = name.partition(".")
    return getattr(importlib.import_module(f"formats.{module}"), cls)


# webdataset leaves its files to the garbage collector.
NOT_CLOSED = pytest.mark.filterwarnings("ignore:unclosed file .*tar:ResourceWarning")


@pytest.fixture(params=[pytest.param(name, marks=[NOT_CLOSED] * name.startswith("tar.")) for name in WRITERS])
def generator(request: Any, page: None, tmp_path: Path) -> Generator:
    """A generator of the page, and its files."""
    created: Generator = shown(request.param)(**WRITERS[request.param](tmp_path))
    return created


def contents(batches: list[tuple[Any, Any]]) -> list[Any]:
    """Inputs and targets, without the meta."""
    return [content[:-1] for content, _ in batches]


def test_samples_have_the_order_of_the_files(generator: Generator) -> None:
    for _ in range(2):  # each pass begins again
        samples = list(generator.create(PipelineMode.EVALUATION).generate())
        assert [int(sample.targets["y"]) for sample in samples] == list(range(11))
        assert np.array_equal(np.stack([sample.inputs["x"] for sample in samples]), X)


@pytest.mark.slow
def test_batches_are_those_of_data_in_memory_with_workers_and_from_the_middle(generator: Generator) -> None:
    samples = [Sample(inputs={"x": x}, targets={"y": np.array([row])}) for row, x in enumerate(X)]
    options: dict[str, Any] = {"batch_size": 4, "worker_start_s": 0.0}
    expected = contents(epoch(make_pipeline(samples, num_processes=0, **options), num_samples=24))
    whole = epoch(make_pipeline(generator, num_processes=0, **options), num_samples=24)
    assert contents(whole) == expected
    assert epoch(make_pipeline(generator, num_processes=2, **options), num_samples=24) == whole
    for done in (1, 4):  # within the first pass, and within the second
        rest = epoch(make_pipeline(generator, num_processes=0, **options), whole[done - 1][1], 24 - 4 * done)
        assert rest == whole[done:]


def test_parquet_reads_the_files_of_a_saved_data_set(tmp_path: Path) -> None:
    write_saved(tmp_path)
    files = [str(path) for path in (tmp_path / "saved").glob("*.arrow")]
    samples: Any = Parquet(files=files, input_columns=["x"], target_columns=["y"]).create(PipelineMode.TRAINING)
    assert [(samples[row].inputs["x"].tolist(), samples[row].targets["y"]) for row in range(11)] == [
        (x.tolist(), row) for row, x in enumerate(X)
    ]


def test_pictures_in_a_table_are_decoded_by_a_processor(page: None, tmp_path: Path) -> None:
    import datasets

    pixels = np.arange(18, dtype="uint8").reshape(2, 3, 3)
    rows = datasets.Dataset.from_dict({"image": [Image.fromarray(pixels)]})
    rows.to_parquet(tmp_path / "a.parquet")
    samples: Any = Parquet(files=[str(tmp_path / "a.parquet")], input_columns=["image"]).create(PipelineMode.TRAINING)
    decode = shown("pictures.DecodePicture")()
    assert np.array_equal(decode.apply(samples[0]).inputs["image"], pixels)
