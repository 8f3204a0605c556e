"""All names that a scenario may need, in one namespace: `from tfaip.imports import DataBase, Sample, ...`.

The names are listed in `imports.pyi` and imported on first use, so params modules and data workers may import this
module: only a name that needs the numeric backend (`ModelBase`, `GraphBase`, `LayerBase` ...) loads it.
"""

from tfaip.util.oldnames import lazy_attributes

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
