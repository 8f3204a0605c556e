"""Former names of `tfaip.params.fields`."""

from tfaip.params.fields import help_of

__all__ = ["help_of"]
