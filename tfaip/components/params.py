"""Params of a scenario: data and model; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from tfaip.data.databaseparams import DataBaseParams
from tfaip.evaluator.params import EvaluatorParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import pai_dataclass, pai_meta
from tfaip.params.generics import bound_field
from tfaip.params.limits import limits
from tfaip.params.root import RootParams
from tfaip.params.sharing import fill_shared

TData = TypeVar("TData", bound=DataBaseParams)
TModel = TypeVar("TModel", bound=ModelBaseParams)


@pai_dataclass
@dataclass
class ScenarioBaseParams(RootParams, Generic[TData, TModel]):
    """Everything that describes a model and its data: stored with an export and loaded by later programs."""

    flag_root: ClassVar[str] = "scenario"

    data: TData = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Params of the data"))
    model: TModel = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Params of the model"))
    evaluator: EvaluatorParams = field(
        default_factory=EvaluatorParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Params of the evaluator"),
    )
    print_eval_limit: int = field(
        default=10,
        metadata=pai_meta(help="Number of samples to print when loading and validating (LAV)") | limits(low=0),
    )
    export_serve: bool = field(
        default=True,
        metadata=pai_meta(
            help="Write a SavedModel (serve/) into best and export, for other runtimes; needs tensorflow"
        ),
    )
    use_input_gradient_regularization: bool = field(
        default=False,
        metadata=pai_meta(
            help="Penalise the squared norm of the gradient of the loss with respect to the floating point inputs of "
            "each training sample, estimated as ((l(x + h d) - l(x)) / h)^2 with d along the gradient; costs two more "
            "forward passes and one more backward pass per batch"
        ),
    )
    input_gradient_regularization_h: float = field(
        default=0.01,
        metadata=pai_meta(help="Input gradient regularization: length h of the step, in units of the inputs")
        | limits(above=0),
    )
    input_gradient_regularization_lambda: float = field(
        default=0.1,
        metadata=pai_meta(help="Input gradient regularization: factor of the penalty in the loss") | limits(above=0),
    )
    export_keras: bool = field(
        default=False,
        metadata=pai_meta(
            help="Write .keras files (keras/) into best and export, which plain Keras loads; needs graphs of Keras "
            "layers and keras.ops on symbolic tensors"
        ),
    )
    export_onnx: bool = field(
        default=False,
        metadata=pai_meta(
            help="Write ONNX files (onnx/) into best and export; needs the tensorflow backend and tf2onnx"
        ),
    )
    scenario_id: str | None = field(default=None, metadata=pai_meta(mode="ignore", help="module:Class of the scenario"))

    def __post_init__(self) -> None:
        super().__post_init__()
        # Not strict: what a part needs may be set later.
        fill_shared(self, self, strict=False)
