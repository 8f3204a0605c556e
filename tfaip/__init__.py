"""tfaip: train, validate, export and serve Keras models described by one tree of dataclasses.

The public names are listed in `__init__.pyi` and imported on first use: `import tfaip` loads neither a numeric backend
nor the modules that define them. `tfaip.imports` offers these names and all others that a scenario may need.
"""

from tfaip.util.importpath import leave_start_directory

# Before any other import: `python -m tfaip.scripts.lav` would import `typing` from the working directory.
leave_start_directory()

from tfaip.util.oldnames import find_old_modules, lazy_attributes  # noqa: E402
from tfaip.version import __version__ as __version__  # noqa: E402

__getattr__, __dir__ = lazy_attributes(__name__, __file__)
find_old_modules()
