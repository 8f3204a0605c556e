"""Names of inputs and outputs in SavedModels that Keras 2 wrote.

The signature `serving_default` of such a model names its outputs after the layers that compute them
(`dense_1`). The names that the author of the model gave (`{"classes": ...}`) are only in the
`__call__` function, which is stored too.
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
        call: takes and returns tensors by name.
        inputs: TensorFlow's specs by name.
        outputs: TensorFlow's specs by name.
    """

    call: Callable[[dict[str, Any]], Mapping[str, Any]]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]


def signature_endpoint(signature: Any) -> Endpoint:
    """Return a signature of a SavedModel as an endpoint."""
    _, inputs = signature.structured_input_signature
    return Endpoint(lambda tensors: signature(**tensors), inputs, signature.structured_outputs)


def keras_2_endpoint(loaded: Any, signature: Any) -> Endpoint:
    """Return `serving_default` with the names that `loaded(inputs, training=False)` uses.

    If the signature has other inputs or outputs than this call, or the model is not one of Keras 2,
    it keeps its names.

    Args:
        loaded: a loaded SavedModel.
        signature: its `serving_default`.
    """
    served = signature_endpoint(signature)
    if not hasattr(loaded, _MARK_OF_KERAS_2):
        return served
    function = getattr(loaded, "__call__", None)  # noqa: B004 (its variants are read, it is not only called)
    for variant in getattr(function, "concrete_functions", ()):
        (given, *further), options = variant.structured_input_signature
        # The further arguments are `training` and `mask`, by position or by name.
        if any(value is not False and value is not None for value in (*further, *options.values())):
            continue
        inputs = _specs_by_name(given, served.inputs)
        outputs = _specs_by_name(variant.structured_outputs, served.outputs)
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


def _specs_by_name(structure: Any, served: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the specs of the call by name; None if they are not those of the signature.

    A single tensor has the name that the signature gives it.
    """
    is_single = not isinstance(structure, dict)
    specs = [structure] if is_single else structure.values()
    if _count_kinds(specs) != _count_kinds(served.values()):
        return None
    return served if is_single else structure


def _count_kinds(specs: Any) -> Counter[str]:
    """Count types and shapes; a spec of something else than a tensor has neither."""
    return Counter(f"{getattr(spec, 'dtype', None)} {getattr(spec, 'shape', None)}" for spec in specs)
