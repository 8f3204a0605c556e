"""The page on the migration from tfaip 1.2 has the defaults of today and of 1.2."""

from __future__ import annotations

import ast
import re
from typing import Any

from test.support.commands import REPOSITORY
from tfaip.components.params import ScenarioBaseParams
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.params.tree import node_fields
from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.trainer.optimizer.optimizers import LambOptimizer, RMSpropOptimizer
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import CosineDecayParams, WarmupCosineDecayParams

PAGE = (REPOSITORY / "docs" / "migration_1.2.md").read_text()
DEFAULT = re.compile(r"^\| `(\w+\.\w+)` \| `([^`]+)` \| `([^`]+)` \|", re.MULTILINE)
# Class, field and the default of tfaip 1.2.
CHANGED: list[tuple[type, str, Any]] = [
    (DataPipelineParams, "use_shared_memory", False),
    (SequentialProcessorPipelineParams, "max_tasks_per_process", 250),
    (RMSpropOptimizer, "rho", 0.0),
    (LambOptimizer, "epsilon", 1e-6),
    (PredictorParams, "include_meta", False),
    (LAVParams, "print_samples", False),
    (TrainerParams, "checkpoint_sub_dir", ""),
    (ScenarioBaseParams, "input_gradient_regularization_h", 0.001),
    (CosineDecayParams, "alpha", 0.1),
    (WarmupCosineDecayParams, "final_epochs", 50),
]


def test_the_page_has_the_defaults_of_then_and_of_now() -> None:
    section = PAGE.partition("\n## Defaults\n")[2].partition("\n## ")[0]
    rows = {name: (ast.literal_eval(old), ast.literal_eval(new)) for name, old, new in DEFAULT.findall(section)}
    now = {f"{cls.__name__}.{field.name}": field.default for cls, *_ in CHANGED for field in node_fields(cls)}
    then = {f"{cls.__name__}.{name}": former for cls, name, former in CHANGED}
    assert rows == {name: (former, now[name]) for name, former in then.items()}
    assert all(old != new for old, new in rows.values())
