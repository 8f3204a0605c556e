"""Former names of `tfaip.params.fields`."""

from tfaip.params.fields import COMMON, is_common, pai_meta

__all__ = ["COMMON", "is_common", "pai_meta"]
