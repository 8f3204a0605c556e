"""Former names of `tfaip.params.fields`."""

from tfaip.params.fields import copied, default_field, is_mutable

__all__ = ["copied", "default_field", "is_mutable"]
