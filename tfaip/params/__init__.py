"""Trees of params: dataclasses that are Python attributes, flags, JSON and help at once."""

from tfaip.params.classes import ParamsBase, pai_dataclass
from tfaip.params.fields import option, pai_meta, shared
from tfaip.params.tree import post_init
from tfaip.params.trust import nameable

__all__ = ["ParamsBase", "nameable", "option", "pai_dataclass", "pai_meta", "post_init", "shared"]
