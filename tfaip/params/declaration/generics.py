"""Former names of `tfaip.params.generics`."""

from tfaip.params.generics import UNBOUND, arguments, bound_field, field_types, resolve_annotation, type_argument

__all__ = ["UNBOUND", "arguments", "bound_field", "field_types", "resolve_annotation", "type_argument"]
