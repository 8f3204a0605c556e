"""Generators and a processor that the page on data shows for other formats, against the same rows in memory."""

from __future__ import annotations

import importlib
import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from test.data.support import epoch, make_pipeline
from test.docs.test_docs import write_files
from tfaip.data.generators.arrow import Parquet
from tfaip.data.pipeline.definitions import PipelineMode, Sample

X = np.random.default_rng(0).random((11, 3), dtype="float32")


def write_hdf5(directory: Path) -> dict[str, Any]:
    with h5py.File(directory / "a.h5", "w") as file:
        file["x"], file["y"] = X, range(11)
    return {"file": str(directory / "a.h5")}


def write_tar(directory: Path) -> dict[str, Any]:
    for name, rows in {"a": range(7), "b": range(7, 11)}.items():
        with tarfile.open(directory / f"{name}.tar", "w") as archive:
            for row in rows:
                array = io.BytesIO()
                np.save(array, X[row])
                for extension, content in (("npy", array.getvalue()), ("cls", str(row).encode())):
                    member = tarfile.TarInfo(f"{row:03}.{extension}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return {"files": [str(directory / "a.tar"), str(directory / "b.tar")]}


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules of the page can be imported, also by workers."""
    write_files("data.md", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "formats"]:
        del sys.modules[name]


@pytest.mark.slow
# webdataset leaves its files to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed file .*tar:ResourceWarning")
@pytest.mark.parametrize(("name", "write"), [("hdf5.Hdf5Rows", write_hdf5), ("tar.TarShards", write_tar)])
def test_rows_of_a_file_are_those_in_memory(name: str, write: Any, page: None, tmp_path: Path) -> None:
    module, _, cls = name.partition(".")
    generator = getattr(importlib.import_module(f"formats.{module}"), cls)(**write(tmp_path))
    for _ in range(2):  # each pass begins again
        rows = list(generator.create(PipelineMode.EVALUATION).generate())
        assert [int(sample.targets["y"]) for sample in rows] == list(range(11))
        assert np.array_equal(np.stack([sample.inputs["x"] for sample in rows]), X)
    samples = [Sample(inputs={"x": x}, targets={"y": np.array([row])}) for row, x in enumerate(X)]
    options: dict[str, Any] = {"batch_size": 4}
    expected = epoch(make_pipeline(samples, num_processes=0, **options), num_samples=24)
    whole = epoch(make_pipeline(generator, num_processes=0, **options), num_samples=24)
    assert [content[:-1] for content, _ in whole] == [content[:-1] for content, _ in expected]  # without the meta
    assert epoch(make_pipeline(generator, num_processes=2, **options), num_samples=24) == whole
    for done in (1, 4):  # resumed within the first pass, and within the second
        rest = epoch(make_pipeline(generator, num_processes=0, **options), whole[done - 1][1], 24 - 4 * done)
        assert rest == whole[done:]


@pytest.mark.slow
def test_data_sets_of_hugging_face_are_read(page: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr("tqdm.std.tqdm.monitor_interval", 0)  # no thread that outlives its progress bars
    pixels = np.arange(18, dtype="uint8").reshape(2, 3, 3)
    rows = datasets.Dataset.from_dict({"image": [Image.fromarray(pixels)], "y": [7]})
    rows.to_parquet(tmp_path / "a.parquet")
    decode = importlib.import_module("formats.pictures").DecodePicture()
    table: Any = Parquet(files=[str(tmp_path / "a.parquet")], input_columns=["image"], target_columns=["y"])
    (sample,) = table.create(PipelineMode.EVALUATION).generate()
    assert np.array_equal(decode.apply(sample).inputs["image"], pixels)
    assert sample.targets["y"] == 7
