"""Names of inputs and outputs in SavedModels that Keras 2 wrote.

`serving_default` of such a model names its outputs after the layers that compute them (`dense_1`). The names that the
author of the model gave (`{"classes": ...}`) are only in the function that calls it, which is stored beside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

_MARK_OF_KERAS_2 = "keras_api"


@dataclass(frozen=True)
class Endpoint:
    """A function of a SavedModel.

    Args:
        call: from tensors by name to tensors by name.
        inputs: TensorFlow's specs by name.
        outputs: likewise.
    """

    call: Callable[[dict[str, Any]], Mapping[str, Any]]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


def signature_endpoint(signature: Any) -> Endpoint:
    """Return a signature of a SavedModel as an endpoint."""
    return Endpoint(
        lambda inputs: signature(**inputs), signature.structured_input_signature[1], signature.structured_outputs
    )


def named_as_called(loaded: Any, signature: Any) -> Endpoint:
    """Return `serving_default` with the names that a Keras 2 model has for its caller.

    That is `loaded(inputs, training=False)`. A signature that computes something else than this call, or of another
    origin, keeps its own names.

    Args:
        loaded: a loaded SavedModel.
        signature: its `serving_default`.
    """
    served = signature_endpoint(signature)
    if not hasattr(loaded, _MARK_OF_KERAS_2):
        return served
    function = getattr(loaded, "__call__", None)  # noqa: B004 (its variants are read, beside calling it)
    for variant in getattr(function, "concrete_functions", ()):
        (given, *further), options = variant.structured_input_signature
        # Either of them is `training` and `mask`.
        if any(value is not False and value is not None for value in (*further, *options.values())):
            continue
        inputs, outputs = _named(given, served.inputs), _named(variant.structured_outputs, served.outputs)
        if inputs is None or outputs is None:
            continue
        return Endpoint(_caller(function, given, further, options, outputs), inputs, outputs)
    return served


def _caller(
    function: Any, given: Any, further: list[Any], options: Mapping[str, Any], outputs: Mapping[str, Any]
) -> Callable[[dict[str, Any]], Mapping[str, Any]]:
    def call(inputs: dict[str, Any]) -> Mapping[str, Any]:
        argument = inputs if isinstance(given, dict) else next(iter(inputs.values()))
        result = function(argument, *further, **options)
        return result if isinstance(result, dict) else dict.fromkeys(outputs, result)

    return call


def _named(structure: Any, served: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the specs of the call by name, a single one by its name in the signature; None if they are others."""
    if not isinstance(structure, dict):
        return served if len(served) == 1 and _kinds([structure]) == _kinds(served.values()) else None
    return structure if _kinds(structure.values()) == _kinds(served.values()) else None


def _kinds(specs: Any) -> Counter[str]:
    """Count types and shapes; `None` for what is no tensor."""
    return Counter(f"{getattr(spec, 'dtype', None)} {getattr(spec, 'shape', None)}" for spec in specs)
