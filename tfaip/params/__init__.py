"""Trees of params: dataclasses that are Python attributes, flags, JSON and help at once."""

from tfaip.params.base import ParamsBase, pai_dataclass
from tfaip.params.commandline.paihook import use_trees
from tfaip.params.metadata import pai_meta
from tfaip.params.names.nameable import nameable
from tfaip.params.options import option
from tfaip.params.shared import shared
from tfaip.params.tree import post_init

__all__ = ["ParamsBase", "nameable", "option", "pai_dataclass", "pai_meta", "post_init", "shared"]

use_trees()
