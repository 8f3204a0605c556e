"""Former names of `tfaip.params.types`."""

from tfaip.params.types import FunctionByName, FunctionName, expected_function, load_function

__all__ = ["FunctionByName", "FunctionName", "expected_function", "load_function"]
