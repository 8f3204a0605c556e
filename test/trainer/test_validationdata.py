"""Validation data that were given and hold no sample are an error; without any there is no validation."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.trainer.line import LinePipelineParams, LineScenario, LineTrainerParams, PointsParams, line_params
from tfaip.data.generators.csvfile import CsvGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator, RawDataGeneratorParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError, UsageError
from tfaip.params import pai_dataclass
from tfaip.predict.params import LAVParams
from tfaip.trainer.params import TrainerPipelineParamsBase


@pai_dataclass
@dataclass
class FolderParams(PointsParams):
    """One sample per file of a directory."""

    directory: str = ""
    files: list[str] = field(default_factory=list)

    @staticmethod
    def cls() -> type[DataGenerator[Any]]:
        return Folder


class Folder(DataGenerator[FolderParams]):
    def __len__(self) -> int:
        return len(list(Path(self.params.directory).glob("*.txt"))) if self.params.directory else 0

    def generate(self) -> Iterable[Sample]:
        return (Sample(inputs={"x": np.ones(1)}, targets={"y": np.ones(1)}) for _ in range(len(self)))


class CodePipelineParams(TrainerPipelineParamsBase[PointsParams, RawDataGeneratorParams]):
    """Builds its generators in code."""

    def train_gen(self) -> PointsParams:
        return PointsParams(x=[1.0])

    def val_gen(self) -> RawDataGeneratorParams:
        return RawDataGeneratorParams([])


def header_only(directory: Path) -> str:
    path = directory / "header.csv"
    path.write_text("x,y\n")
    return str(path)


def with_validation(generator: Any, **fields: Any) -> LineTrainerParams:
    params = line_params([1, 2], **fields)
    params.gen.val = generator
    return params


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    params = with_validation(FolderParams(directory=str(tmp_path)), output_dir=tmp_path / "run")
    with pytest.raises(UsageError, match=r"validation data have no sample \(--val.directory '.*'\): correct") as raised:
        LineScenario.create_trainer(params).train()
    assert len(str(raised.value)) <= 300
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("preload_data", [False, True])
def test_a_csv_file_without_rows_is_an_error(tmp_path: Path, preload_data: bool) -> None:
    params = with_validation(CsvGeneratorParams(files=[header_only(tmp_path)]), preload_data=preload_data)
    with pytest.raises(UsageError, match=r"have no sample \(--val.files \['.*header.csv'\]\)"):
        LineScenario.create_trainer(params).train()


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


def test_many_long_options_make_no_long_message() -> None:
    params = with_validation(FolderParams(directory="/none/" + "d" * 200, files=["f" * 200] * 50))
    with pytest.raises(UsageError, match="no sample") as raised:
        LineScenario.create_trainer(params).train()
    assert len(str(raised.value)) <= 300


def test_an_empty_generator_made_in_code_is_an_error() -> None:
    params: Any = line_params([1])
    pipelines = CodePipelineParams()
    pipelines.setup = params.gen.setup
    params.gen = pipelines
    with pytest.raises(UsageError, match=r"no sample \(val_gen returns RawDataGeneratorParams\)"):
        LineScenario.create_trainer(params).train()


@pytest.mark.parametrize(
    ("generator", "preload_data"),
    [(PointsParams(), False), (CsvGeneratorParams(), True), (FolderParams(), True), (RawDataGeneratorParams(), False)],
)
def test_without_validation_data_one_line_says_so(
    generator: Any, preload_data: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="tfaip"):
        logs = LineScenario.create_trainer(with_validation(generator, preload_data=preload_data)).train()
    assert not any(name.startswith("val_") for name in logs)
    assert [m for m in caplog.messages if "validation" in m] == [
        "no validation: the best model follows loss/mean_epoch of the training"
    ]


def test_an_option_that_asks_for_no_validation_wins(tmp_path: Path) -> None:
    params = with_validation(FolderParams(directory=str(tmp_path)), val_every_n=0)
    assert "val_loss" not in LineScenario.create_trainer(params).train()


def test_lav_needs_samples(tmp_path: Path) -> None:
    class Pipelines(LinePipelineParams):
        def lav_gen(self) -> list[PointsParams]:
            return [PointsParams(x=[1.0]), FolderParams(directory=str(tmp_path))]

    params = line_params([1], [1], lav_every_n=1)
    params.gen = Pipelines(setup=params.gen.setup, train=params.gen.train, val=params.gen.val)
    with pytest.raises(UsageError, match="lav_every_n is 1, but .* no data for LAV"):
        LineScenario.create_trainer(params).train()
    trained = line_params([1], [1], tmp_path / "run", export_final=True)
    LineScenario.create_trainer(trained).train()
    best = tmp_path / "run" / "export"
    lav = LineScenario.create_lav(LAVParams(model_path=str(best)), LineScenario.params_from_path(best))
    with pytest.raises(TfaipError, match="has no valid sample"):
        list(lav.run([FolderParams(directory=str(tmp_path / "run" / "train"))]))
