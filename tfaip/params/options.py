"""Former names of `tfaip.params.fields`."""

from tfaip.params.fields import option

__all__ = ["option"]
