"""Lines of digits, read by a recurrent network that can grow during the training."""

from lines.scenario import LineScenario
from tfaip import ModelBaseParams, option


class GrowingModelParams(ModelBaseParams, cls="lines.model:LineModel", graph_cls=".model:GrowingGraph"):
    """Options of the model."""

    num_layers: int = option(3, "Bidirectional LSTM layers", low=1)
    units: int = option(64, "Units of each layer and direction", low=1)


class GrowingScenario(LineScenario):
    """Reads lines of digits with bidirectional LSTMs."""

    model = GrowingModelParams
    defaults = {"trainer.epochs": 12, "learning_rate.lr": 0.003}
