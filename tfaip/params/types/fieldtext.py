"""Former names of `tfaip.params.types`."""

from tfaip.params.types import FieldText, FieldValue, FieldValues, flat_values, path_below, value_text

__all__ = ["FieldText", "FieldValue", "FieldValues", "flat_values", "path_below", "value_text"]
