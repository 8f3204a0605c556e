"""The tree of params: dataclasses that are Python attributes, command line, JSON and help at once."""

from paiargparse import pai_dataclass, pai_meta

from tfaip.params.base import ParamsBase
from tfaip.params.tree import post_init

__all__ = ["ParamsBase", "pai_dataclass", "pai_meta", "post_init"]
