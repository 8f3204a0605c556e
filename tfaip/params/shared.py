"""Former names of `tfaip.params.fields`."""

from tfaip.params.fields import Shared, shared, shared_of, take_shared

__all__ = ["Shared", "shared", "shared_of", "take_shared"]
