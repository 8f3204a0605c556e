"""Marshmallow schemas of params classes, as `dataclasses_json` offers them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from marshmallow import Schema, ValidationError, fields, post_load, pre_dump

from tfaip.errors import UsageError
from tfaip.params.codec import CLASS_KEY, options_of
from tfaip.params.fields import help_of
from tfaip.params.stored import from_dict, to_dict
from tfaip.params.tree import has_default, node_fields


def schema_of(cls: Any, *, infer_missing: bool = False, trusted: Iterable[str] = (), **options: Any) -> Schema:
    """Return a schema whose `dump` and `load` are the ones of params: complete, strict and safe.

    Args:
        cls: class of params.
        infer_missing: missing values that have no default are None.
        trusted: further top-level packages whose classes may be named.
        options: of `marshmallow.Schema`: `only`, `exclude`, `many`, `unknown` ...
    """
    members: dict[str, Any] = {CLASS_KEY: fields.String()}
    optional: dict[str, None] = {}
    for field in node_fields(cls):
        is_required = not has_default(field)
        name = options_of(cls)[field.name].name
        metadata = {"description": help_of(cls, field.name)}
        members[name] = fields.Raw(required=is_required and not infer_missing, allow_none=True, metadata=metadata)
        if is_required and infer_missing:
            optional[name] = None

    class ParamsSchema(Schema):
        @pre_dump
        def encode(self, params: Any, **_: Any) -> dict[str, Any]:
            return to_dict(params)

        @post_load
        def decode(self, values: Mapping[str, Any], **_: Any) -> Any:
            try:
                return from_dict(cls, {**optional, **values}, trusted=trusted)
            except UsageError as error:
                raise ValidationError(str(error)) from error

    made: Any = type(f"{cls.__name__}Schema", (ParamsSchema,), members)
    schema: Schema = made(**options)
    return schema
