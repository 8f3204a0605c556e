"""Models of all stages before the first batch: built once, without data, to plan the transfers between them.

So a regular expression that matches nothing, or a loss that does not exist, is known at the start of a run, and the
table of the stages tells which weights each stage takes over. The decisions are those of the training, made by the same
functions. A model is not known in advance if its params depend on a result, or if it cannot be built before a stage
without training has done its work.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfaip.device.devices import precision_scope
from tfaip.errors import UsageError
from tfaip.model.structure.axis import Structure
from tfaip.model.trainingmodel import TrainingModel
from tfaip.params.limits import FieldError
from tfaip.params.settings import flags_of
from tfaip.trainer.modelsetup import build_training_model, built_from, weight_structure
from tfaip.trainer.runparams import Params
from tfaip.trainer.runparts import RunParts
from tfaip.trainer.setup import Scenario
from tfaip.trainer.stagerunner.handover import keeps_graph, plan_weights, transfer_flags
from tfaip.trainer.stages.plan import model_params
from tfaip.trainer.stages.planned import PlannedStage, StageKind, path_of_params
from tfaip.trainer.stages.table import plan_table
from tfaip.trainer.state import weights_of
from tfaip.trainer.transfer.fitting import Shape
from tfaip.trainer.transfer.plan import Source, Transfer
from tfaip.trainer.transfer.table import counts_text, is_whole, transfer_table
from tfaip.util.construction import construct
from tfaip.util.logging import CONSOLE_TEXT, logger, only_warnings, timed

log = logger(__name__)

_LATER = "known when it is reached"


@dataclass(frozen=True)
class ExpectedWeights:
    """Weights that a stage will begin with.

    Args:
        text: in words, for the table of the stages.
        transfer: the decision on each weight; None: the stage begins with the model of the one before, with its first
            weights, or is not known.
    """

    text: str
    transfer: Transfer | None = None

    def lines(self) -> list[str]:
        """Return a line per weight if some are not copied as they are."""
        return [] if self.transfer is None or is_whole(self.transfer) else transfer_table(self.transfer)


@dataclass(frozen=True)
class _StageModel:
    """Facts on the model of a stage that a transfer needs; its weights are not kept.

    Args:
        name: of the stage.
        params: of the stage.
        shapes: of the weights by path.
        structure: the dimensions that they consist of.
        is_kept: the graph is that of the stage before.
    """

    name: str
    params: Params
    shapes: Mapping[str, Shape]
    structure: Structure
    is_kept: bool

    def source(self) -> Source:
        """Return the weights as a transfer takes them, of which only names and shapes are read: without memory."""
        arrays = {path: np.broadcast_to(np.float32(0), shape) for path, shape in self.shapes.items()}
        return Source(f"stage {self.name}", arrays, structure=self.structure)


class ModelPreview:
    """Models of the stages of a run, built one after the other.

    Args:
        run: the run, in the scope of its devices.
        scenario_cls: class of its scenario.
    """

    def __init__(self, run: RunParts, scenario_cls: type[Scenario]) -> None:
        self._run = run
        self._scenario_cls = scenario_cls
        self._before: _StageModel | None = None
        # The only graph that exists at a time, and all that its training model was made of.
        self._scenario: Scenario | None = None
        self._facts: Mapping[str, Any] = {}
        self._has_worked = False

    def expect(self, stages: Sequence[PlannedStage], first: str | None = None) -> dict[str, ExpectedWeights]:
        """Return the weights that the stages will begin with, by name of the stage.

        Args:
            stages: those that remain, in order.
            first: the weights that the first training begins with, in words; None: fresh ones.

        Raises:
            UsageError: if a model cannot be built, or a transfer copies nothing; one line that names the stage.
        """
        expected: dict[str, ExpectedWeights] = {}
        with timed(log, "building the models of all stages"), only_warnings():
            for stage in stages:
                if stage.kind is not StageKind.TRAIN:
                    self._has_worked = True
                elif expected:
                    expected[stage.name] = self._expect(stage)
                else:
                    model = self._before = self._model_of(stage)
                    text = _LATER if model is None else f"{len(model.shapes)} fresh"
                    expected[stage.name] = ExpectedWeights(first or text)
            self._forget_graph()
        return expected

    def _expect(self, stage: PlannedStage) -> ExpectedWeights:
        before = self._before
        model = self._before = self._model_of(stage)
        if before is None or model is None:
            return ExpectedWeights(_LATER)
        if model.is_kept:
            return ExpectedWeights("all kept")
        with transfer_flags(self._run.params, stage):
            planned = plan_weights(before.source(), stage.name, model.shapes, lambda: model.structure, stage.transfer)
        return ExpectedWeights(counts_text(planned), planned)

    def _model_of(self, stage: PlannedStage) -> _StageModel | None:
        """Build the model of a stage; None: it is not known in advance."""
        before, params = self._before, model_params(stage)
        if params is None:
            self._forget_graph()
            return None
        is_kept = before is not None and keeps_graph(before.params, params, stage.transfer)
        if not is_kept:
            self._forget_graph()
        scenario = self._scenario = self._scenario or construct(self._scenario_cls, params.scenario)
        try:
            model = self._build(params, scenario)
        except FieldError as error:
            raise _named(error, stage, self._run.params) from error
        except Exception:
            if not self._has_worked:
                raise
            log.debug("the model of stage %s is not known in advance", stage.name, exc_info=True)
            self._forget_graph()
            return None
        if model is None:
            assert before is not None  # noqa: S101 (only a graph that is kept needs no other model)
            return replace(before, name=stage.name, params=params, is_kept=is_kept)
        shapes = {path: tuple(variable.shape) for path, variable in weights_of(model.graph).items()}
        return _StageModel(stage.name, params, shapes, weight_structure(model, scenario), is_kept)

    def _build(self, params: Params, scenario: Scenario) -> TrainingModel | None:
        """Build the training model of a stage; None: that of the stage before is the same."""
        losses = self._run.weighted_losses()
        devices = self._run.with_precision(params.device.precision).devices
        facts = {
            **built_from(params, scenario, 1, devices, losses),
            "loss_weights": sorted(params.loss_weights),
        }
        if facts == self._facts:
            return None
        self._facts = facts
        with precision_scope(params.device.precision):
            return build_training_model(params, scenario, 1, devices, None, losses)

    def _forget_graph(self) -> None:
        """Free the memory of the graph, if there is one, before the next one is built; models contain circles."""
        has_graph = self._scenario is not None
        self._scenario, self._facts = None, {}
        if has_graph:
            gc.collect()


def _named(error: FieldError, stage: PlannedStage, run: Params) -> UsageError:
    """Return the error of a param that does not fit the model of a stage, with its flag and the stage."""
    of_the_list = error.path == "no_train_scope" and getattr(stage.settings, "no_train_scope", None) is not None
    try:
        with flags_of(run, "trainer", path_of_params(stage.name) if of_the_list else ""):
            raise error
    except FieldError as named:
        return UsageError(f"stage {stage.name}: {named}")


def log_plan(plan: Sequence[PlannedStage], expected: Mapping[str, ExpectedWeights]) -> None:
    """Log the table of the stages; the log of the run also gets the names of the weights that change.

    Args:
        plan: all stages.
        expected: the weights that the stages begin with, as far as they are known, by name of the stage.
    """
    table = plan_table(plan, {name: weights.text for name, weights in expected.items()})
    details = []
    for name, weights in expected.items():
        if weights.lines():
            details += [f"weights of stage {name}:", *(f"  {line}" for line in weights.lines())]
    log.info("stages:\n%s", "\n".join([*table, *details]), extra={CONSOLE_TEXT: "\n".join(table)})
