"""Former names of `tfaip.params.classes`."""

from tfaip.params.classes import RootParams

__all__ = ["RootParams"]
