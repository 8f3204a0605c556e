"""Reads the file of the backbone before the first epoch."""

from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.imports import Trainer, WarmStarter


class BackboneStarter(WarmStarter):
    """As `WarmStarter`, after it has read the file of the backbone, of any format that Keras reads."""

    def __init__(self, params: Any, file: str) -> None:
        super().__init__(params)
        self.file = file

    def apply(self, graph: Any, structure: Any = None) -> None:
        if self.file:
            if not Path(self.file).is_file():
                raise UsageError(f"--model.backbone {self.file}: there is no such file")
            graph.network.get_layer("backbone").load_weights(self.file)
        super().apply(graph, structure)


class TransferTrainer(Trainer):
    """A training that can begin with a trained backbone."""

    def create_warmstarter(self) -> WarmStarter:
        return BackboneStarter(self.params.warmstart, self.params.scenario.model.backbone)
