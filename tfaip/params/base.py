"""Former names of `tfaip.params.classes`."""

from tfaip.params.classes import ParamsBase, pai_dataclass

__all__ = ["ParamsBase", "pai_dataclass"]
