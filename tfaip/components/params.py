"""Params of a scenario: data and model; needs no backend."""

from typing import Any, ClassVar, Generic, TypeVar

from tfaip.data.databaseparams import DataBaseParams
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import option, pai_meta
from tfaip.params.names import top_package
from tfaip.params.settings import RootParams
from tfaip.params.tree import fill_shared
from tfaip.params.trust import Trust, check_function, import_named
from tfaip.params.types import bound_field
from tfaip.util.classes import construct
from tfaip.util.text import shorten

TData = TypeVar("TData", bound=DataBaseParams)
TModel = TypeVar("TModel", bound=ModelBaseParams)


class ScenarioBaseParams(RootParams, Generic[TData, TModel]):
    """Everything that describes a model and its data: stored with an export and loaded by later programs."""

    flag_root: ClassVar[str] = "scenario"

    data: TData = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Params of the data"))
    model: TModel = bound_field(pai_meta(fix_dc=True, mode="ssnake", help="Params of the model"))
    evaluator: EvaluatorParams = option(
        help="Params of the evaluator", factory=EvaluatorParams, fix_dc=True, mode="ssnake"
    )
    print_eval_limit: int = option(10, "Number of samples to print when loading and validating (LAV)", low=0)
    export_serve: bool = option(
        True, "Write a SavedModel (serve/) into best and export, for other runtimes; needs tensorflow"
    )
    use_input_gradient_regularization: bool = option(
        False,
        "Penalise the squared norm of the gradient of the loss with respect to the floating point inputs of "
        "each training sample, estimated as ((l(x + h d) - l(x)) / h)^2 with d along the gradient; costs two more "
        "forward passes and one more backward pass per batch",
    )
    input_gradient_regularization_h: float = option(
        0.01, "Input gradient regularization: length h of the step, in units of the inputs", above=0
    )
    input_gradient_regularization_lambda: float = option(
        0.1, "Input gradient regularization: factor of the penalty in the loss", low=0
    )
    export_keras: bool = option(
        False,
        "Write .keras files (keras/) into best and export, which plain Keras loads; needs graphs of Keras "
        "layers and keras.ops on symbolic tensors",
    )
    export_onnx: bool = option(
        False, "Write ONNX files (onnx/) into best and export; needs the tensorflow backend and tf2onnx"
    )
    scenario_id: str | None = option(None, "module:Class of the scenario", mode="ignore")
    # Names of tfaip 1.2, which its programs set to find their models.
    default_serve_dir: str = option(
        "", "Name of the best model if early_stopping.best_model_name is empty", mode="ignore"
    )
    trainer_params_filename: str = option("", "File for a copy of the trainer params beside it", mode="ignore")

    def __post_init__(self) -> None:
        super().__post_init__()
        # Not strict: what a part needs may be set later.
        fill_shared(self, self, strict=False)

    def cls(self) -> type[Any]:
        """Return the class of the scenario, which `scenario_id` names; `default_params` of the scenario sets it.

        Raises:
            UsageError: if it is not set, or names no scenario, or one of another package than that of the params.
        """
        name, owner = self.scenario_id, type(self)
        if name is None:
            raise UsageError(
                f"{owner.__name__} does not know its scenario: take the params from default_params of the scenario, "
                "or set scenario_id to module:Class"
            )
        # It may come from a file, which must lead to no other code.
        check_function(name, Trust.of([top_package(owner.__module__)]), "scenario_id")
        found = import_named(name, "scenario_id", "object")
        if not isinstance(found, type) or not hasattr(found, "default_trainer_params"):
            raise UsageError(f"scenario_id {shorten(name)} is no scenario: set it to module:Class of a scenario")
        return found

    def create(self) -> Any:
        """Build the scenario."""
        return construct(self.cls(), self)

    def create_model_and_graph(self) -> tuple[Any, Any]:
        """Build the scenario, and return its model and its graph."""
        model, graph = self.create().create_model_and_graph()
        return model, graph
