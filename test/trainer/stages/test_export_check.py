"""The check of the export in stages that train the same model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import LineModel, LineModelParams, LineScenario, train
from test.trainer.stages.stagedruns import stage, staged_params
from tfaip.errors import TfaipError
from tfaip.model.modelbase import ModelBase
from tfaip.params import pai_dataclass


@pai_dataclass
class CountingParams(LineModelParams):
    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        return CountingModel


class CountingModel(LineModel):
    """Exports a function that gives something else whenever it is called."""

    calls = 0

    def _export_graphs(self, graph: Any) -> dict[str, Any]:
        def counting(inputs: Any) -> Any:
            self.calls += 1
            return {"y": inputs["x"] * self.calls}

        return {"serve": counting}


def test_a_later_stage_checks_what_the_first_did_not_export(tmp_path: Path) -> None:
    first = stage(1, export_best=False, export_final=False)
    params = staged_params([1.0], {"first": first, "second": stage(1)}, epochs=3, output_dir=tmp_path / "run")
    params.scenario.model = CountingParams()
    params.scenario.export_serve = params.export_best = params.export_final = True
    params.skip_model_load_test = False
    with pytest.raises(TfaipError, match="gives other values for output 'y'"):
        train(params, scenario=LineScenario)
