"""Findings in the model of a scenario, which is built without data: layers, losses and metrics."""

from __future__ import annotations

from typing import Any

from tfaip.scenario.checking.finding import Finding, Kind, finding_at, finding_of_error
from tfaip.util.construction import construct


def find_in_model(scenario_cls: Any, scenario_params: Any) -> list[Finding]:
    """Build the model of a scenario and return what keeps it from being trained, or from being compiled.

    Args:
        scenario_cls: class of the scenario.
        scenario_params: its params.
    """
    from tfaip.model.compilation import uncompiled_layers
    from tfaip.model.trainingmodel import TrainingModel

    try:
        scenario = construct(scenario_cls, scenario_params)
        model = TrainingModel(scenario.model, scenario.graph)
        model.build_symbolically(scenario.data.create_input_layers(), scenario.data.create_target_layers())
    except Exception as error:  # code of the user
        return [_failure(error, scenario_cls)]
    findings = []
    for path, layer in uncompiled_layers(model).items():
        cls = type(layer)
        code = cls if not cls.__module__.startswith("keras.") else type(scenario.graph)
        findings.append(
            finding_at(
                code,
                Kind.UNCOMPILED,
                f"layer {path} ({cls.__name__}) has supports_jit=False: the whole step runs uncompiled on JAX, and on "
                "TensorFlow with --trainer.jit_compile",
                "write it with keras.ops, or move what it does into a processor of the data",
            )
        )
    return findings


def _failure(error: Exception, scenario_cls: Any) -> Finding:
    kind, text, advice = Kind.FAILS, "the model cannot be built", "correct it, and check again"
    if "unknown rank" in str(error):
        kind, text = Kind.UNKNOWN_RANK, "a tensor has an unknown rank, which losses and metrics of Keras 3 refuse"
        advice = "give it a shape (tensor.set_shape, or keras.ops.reshape) before it is passed on"
    return finding_of_error(error, kind, scenario_cls, text, advice)
