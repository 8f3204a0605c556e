"""Defaults that differ from those of tfaip 1.2, and that a scenario of that time leaves alone."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfaip.params.tree.nodes import node_fields, nodes_of
from tfaip.scenario.checking.finding import Finding, Kind, finding_at
from tfaip.scenario.checking.sources import Source
from tfaip.scenario.scenario import Scenario


@dataclass(frozen=True)
class ChangedDefault:
    """A field whose default is not that of tfaip 1.2.

    Args:
        owner: "module:Class" of the params.
        field: its name.
        former: the default of 1.2.
    """

    owner: str
    field: str
    former: Any

    @property
    def name(self) -> str:
        """Class and field, as in `TrainerParams.epochs`."""
        return f"{self.owner.partition(':')[2]}.{self.field}"

    def cls(self) -> type:
        """Import the class of the params."""
        module, _, name = self.owner.partition(":")
        cls: type = getattr(importlib.import_module(module), name)
        return cls

    def present(self) -> Any:
        """Return the default of today."""
        (field,) = (field for field in node_fields(self.cls()) if field.name == self.field)
        return field.default


_OPTIMIZERS = "tfaip.trainer.optimizer.optimizers"

CHANGED_DEFAULTS = (
    ChangedDefault("tfaip.data.pipeline.params:DataPipelineParams", "use_shared_memory", False),
    ChangedDefault(
        "tfaip.data.pipeline.processor.params:SequentialProcessorPipelineParams", "max_tasks_per_process", 250
    ),
    ChangedDefault(f"{_OPTIMIZERS}:RMSpropOptimizer", "rho", 0.0),
    ChangedDefault(f"{_OPTIMIZERS}:LambOptimizer", "epsilon", 1e-6),
    ChangedDefault("tfaip.predict.params:PredictorParams", "include_meta", False),
    ChangedDefault("tfaip.lav.params:LAVParams", "print_samples", False),
    ChangedDefault("tfaip.trainer.params:TrainerParams", "checkpoint_sub_dir", ""),
    ChangedDefault("tfaip.components.params:ScenarioBaseParams", "input_gradient_regularization_h", 0.001),
    ChangedDefault("tfaip.trainer.scheduler.cosine:CosineDecayParams", "alpha", 0.1),
    ChangedDefault("tfaip.trainer.scheduler.warmup:WarmupCosineDecayParams", "final_epochs", 50),
)


def find_changed_defaults(scenario: type, params: Any, sources: Sequence[Source]) -> list[Finding]:
    """Return the changed defaults that the params of a scenario have and that its code does not mention.

    Scenarios that derive from `Scenario` were not written for 1.2: there is nothing to compare with.

    Args:
        scenario: class of the scenario.
        params: its default trainer params.
        sources: files of its package.
    """
    if issubclass(scenario, Scenario):
        return []
    is_set, is_used = _fields_set(sources), _names_used(sources)
    findings = []
    for changed in CHANGED_DEFAULTS:
        present = changed.present()
        is_relevant = changed.cls().__name__ in is_used or _has_default(params, changed, present)
        if changed.field in is_set or not is_relevant:
            continue
        findings.append(
            finding_at(
                scenario,
                Kind.CHANGED_DEFAULT,
                f"{changed.name} is {present!r} by default, {changed.former!r} in tfaip 1.2",
                f"set {changed.field} in the scenario, to either value",
            )
        )
    return findings


def _has_default(params: Any, changed: ChangedDefault, present: Any) -> bool:
    owners = [node for node in nodes_of(params) if isinstance(node, changed.cls())]
    return any(getattr(node, changed.field) == present for node in owners)


def _names_used(sources: Sequence[Source]) -> set[str]:
    return {node.id for source in sources for node in ast.walk(source.tree) if isinstance(node, ast.Name)}


def _fields_set(sources: Sequence[Source]) -> set[str]:
    """Return the names that the code sets: attributes, keyword arguments, annotated names, and last parts of flags."""
    found: set[str] = set()
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.keyword) and node.arg is not None:
                found.add(node.arg)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value.rpartition(".")[2])
    return found
