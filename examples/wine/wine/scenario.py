"""Three sorts of wine, told apart by 13 measurements of scikit-learn's data set."""

from typing import Any

from tfaip.imports import ArrayDataGenerator, Data, Generator, ModelBaseParams, Sample, Scenario, Spec, option


class WineData(Data):
    inputs, targets = {"x": Spec(13)}, {"sort": Spec(1, int)}


class Wines(Generator, ArrayDataGenerator[Any]):
    first: int = option(0, "Number of the first of the wines, of which every third is read")

    def load(self) -> Sample:
        from sklearn.datasets import load_wine

        x, sort = load_wine(return_X_y=True)
        return Sample(inputs={"x": x[self.first :: 3]}, targets={"sort": sort[self.first :: 3, None]})


class WineModelParams(ModelBaseParams, cls=".model:WineModel"):
    units: int = option(16, "Units of the hidden layer", low=1)


class WineScenario(Scenario):
    data, model, train, val = WineData, WineModelParams, Wines(), Wines(first=1)
    best, defaults = "max acc", {"trainer.epochs": 20, "learning_rate.lr": 0.01}
