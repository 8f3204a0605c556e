"""Validation data that were given and hold no sample are an error; without any there is no validation."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.trainer.line import LinePipelineParams, LineScenario, LineTrainerParams, PointsParams, line_params
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.pipeline.datagenerator import Generator, RawDataGeneratorParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError, UsageError
from tfaip.predict.params import LAVParams


class Folder(Generator):
    """One sample per file of a directory."""

    x: list[float] = []
    directory: str = ""
    files: list[str] = []

    def __len__(self) -> int:
        return len(list(Path(self.directory).glob("*.txt"))) if self.directory else 0

    def generate(self) -> Iterable[Sample]:
        return (Sample(inputs={"x": np.ones(1)}, targets={"y": np.ones(1)}) for _ in range(len(self)))


class FromCode(LinePipelineParams):
    """Builds its generators in code."""

    def val_gen(self) -> RawDataGeneratorParams:
        return RawDataGeneratorParams([])


def with_validation(generator: Any, **fields: Any) -> LineTrainerParams:
    params = line_params([1, 2], **fields)
    params.gen.val = generator
    return params


@pytest.mark.parametrize("preload_data", [False, True])
def test_validation_data_without_a_sample_are_an_error(tmp_path: Path, preload_data: bool) -> None:
    (tmp_path / "header.csv").write_text("x,y\n")
    for generator, named in [
        (Folder(directory=str(tmp_path)), r"\(--val.directory '.*'\): correct"),
        (Folder(directory="/none/" + "d" * 200, files=["f" * 200] * 50), "--val.directory"),
        (CsvGeneratorParams(files=[str(tmp_path / "header.csv")]), r"\(--val.files \['.*header.csv'\]\)"),
        (PointsParams(), r"\(val_gen returns RawDataGeneratorParams\)"),
    ]:
        params = with_validation(generator, output_dir=tmp_path / "run", preload_data=preload_data)
        if isinstance(generator, PointsParams):
            params.gen = FromCode(setup=params.gen.setup, train=params.gen.train)
        with pytest.raises(UsageError, match=f"have no sample {named}") as raised:
            LineScenario.create_trainer(params).train()
        assert len(str(raised.value)) <= 300
        assert not (tmp_path / "run").exists()
    # An option that asks for no validation wins.
    params = with_validation(Folder(directory=str(tmp_path)), val_every_n=0)
    assert "val_loss" not in LineScenario.create_trainer(params).train()


@pytest.mark.parametrize("preload_data", [False, True])
def test_a_missing_file_names_the_flag_of_its_generator(preload_data: bool) -> None:
    missing = CsvGeneratorParams(files=["missing.csv"], input_columns=["x"])
    here = re.escape(os.getcwd())
    reason = f"cannot read the CSV file missing.csv: No such file or directory in {here}, where a relative path begins"
    reason += "; change"
    params = with_validation(missing, preload_data=preload_data)
    with pytest.raises(UsageError, match=f"^{reason} --val.files$"):
        LineScenario.create_trainer(params).train()
    params = line_params([1], preload_data=preload_data)
    params.gen.train = missing
    with pytest.raises(UsageError, match=f"^{reason} --train.files$"):
        LineScenario.create_trainer(params).train()


@pytest.mark.parametrize(
    ("generator", "preload_data"),
    [(PointsParams(), False), (CsvGeneratorParams(), True), (Folder(), True), (RawDataGeneratorParams(), False)],
)
def test_without_validation_data_one_line_says_so(generator, preload_data, caplog):
    with caplog.at_level(logging.INFO, logger="tfaip"):
        logs = LineScenario.create_trainer(with_validation(generator, preload_data=preload_data)).train()
    assert not any(name.startswith("val_") for name in logs)
    assert [m for m in caplog.messages if "validation" in m] == [
        "no validation: the best model follows loss/mean_epoch of the training"
    ]


def test_lav_needs_samples(tmp_path: Path) -> None:
    class Pipelines(LinePipelineParams):
        def lav_gen(self) -> list[PointsParams]:
            return [PointsParams(x=[1.0]), Folder(directory=str(tmp_path))]

    params = line_params([1], [1], lav_every_n=1)
    params.gen = Pipelines(setup=params.gen.setup, train=params.gen.train, val=params.gen.val)
    with pytest.raises(UsageError, match="lav_every_n is 1, but .* no data for LAV"):
        LineScenario.create_trainer(params).train()
    trained = line_params([1], [1], tmp_path / "run", export_final=True)
    LineScenario.create_trainer(trained).train()
    best = tmp_path / "run" / "export"
    lav = LineScenario.create_lav(LAVParams(model_path=str(best)), LineScenario.params_from_path(best))
    with pytest.raises(TfaipError, match="has no valid sample"):
        list(lav.run([Folder(directory=str(tmp_path / "run" / "train"))]))
