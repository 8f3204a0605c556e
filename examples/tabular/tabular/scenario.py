"""Rows of a CSV file: numbers, which are standardised, and a category; the target is a number."""

import csv
from statistics import fmean, pstdev

import numpy as np

from tfaip import Data, Evaluator, ModelBaseParams, Processor, Sample, Scenario, Spec, option, shared
from tfaip.imports import CsvGeneratorParams

NUMBERS = ["age", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"]
TARGET = "progression"


class TableData(Data):
    """Columns, and what is known of them from the data of the training."""

    table: str = option("", "CSV file of the training, whose means and deviations are used", required=True)
    mean: list[float] = option([], "Mean of each number and of the target (empty: those of the file)")
    stddev: list[float] = option([], "Their standard deviations (empty: those of the file)")
    inputs = {"numbers": Spec(len(NUMBERS)), "sex": Spec(1, int)}
    targets = {TARGET: Spec(1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table and not self.mean:  # stored with the model, which is used without the file
            with open(self.table, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            columns = [[float(row[name]) for row in rows] for name in (*NUMBERS, TARGET)]
            self.mean, self.stddev = list(map(fmean, columns)), list(map(pstdev, columns))


class Encode(Processor):
    """Columns as inputs of the model: numbers with mean 0 and deviation 1, the category from 0."""

    data: TableData = shared()

    def apply(self, sample: Sample) -> Sample:
        mean, stddev = np.array(self.data.mean), np.array(self.data.stddev)
        if sample.inputs is not None:
            values = np.array([sample.inputs[name] for name in NUMBERS])
            numbers = ((values - mean[:-1]) / stddev[:-1]).astype("float32")
            sample = sample.new_inputs({"numbers": numbers, "sex": [int(sample.inputs["sex"]) - 1]})
        if sample.targets is not None:
            scaled = (sample.targets[TARGET] - mean[-1]) / stddev[-1]
            sample = sample.new_targets({TARGET: [scaled]})
        return sample


class Decode(Processor):
    """Predictions in the unit of the table."""

    data: TableData = shared()

    def apply(self, sample: Sample) -> Sample:
        mean, stddev = self.data.mean[-1], self.data.stddev[-1]
        if sample.targets is not None:
            sample = sample.new_targets({TARGET: sample.targets[TARGET] * stddev + mean})
        return sample.new_outputs({TARGET: sample.outputs[TARGET] * stddev + mean})


class Errors(Evaluator):
    """Mean absolute error, and the share of the variance that is explained (R2)."""

    def __enter__(self) -> "Errors":
        self.truth: list[float] = []
        self.found: list[float] = []
        return self

    def update_state(self, sample: Sample) -> None:
        self.truth.append(sample.targets[TARGET].item())
        self.found.append(sample.outputs[TARGET].item())

    def result(self) -> dict[str, float]:
        truth, error = np.array(self.truth), np.array(self.found) - np.array(self.truth)
        variance = float(np.var(truth)) or 1.0
        return {"mae": float(np.mean(np.abs(error))), "r2": 1 - float(np.mean(error**2)) / variance}


class TableModelParams(ModelBaseParams, cls=".model:TableModel"):
    """Options of the model."""

    units: list[int] = option([32, 32], "Units of each hidden layer", nargs="+")
    dropout: float = option(0.3, "Share of the units that are dropped in training", low=0, high=0.9)


def rows() -> CsvGeneratorParams:
    """Return rows of files to be named: `--train.files a.csv b.csv`."""
    return CsvGeneratorParams(input_columns=[*NUMBERS, "sex"], target_columns=[TARGET])


class TableScenario(Scenario):
    """Predicts a number from the other columns of a table."""

    data, model, evaluator = TableData, TableModelParams, Errors
    train, val = rows(), rows()
    processors, post_processors = [Encode()], [Decode()]
    best = "min lav_l0_mae"
    defaults = {"trainer.epochs": 40, "trainer.lav_every_n": 1, "learning_rate.lr": 0.003}
