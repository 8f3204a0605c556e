"""Base of the params trees that commands parse: their values are read and set by flags, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tfaip.params.classes import ParamsBase


class RootParams(ParamsBase):
    """Root of the params tree of a command: `params["train.num_processes"] = 2`.

    The names are those of the flags, with the same values and errors as on a command line; see
    `tfaip.params.settings`. Subclasses set `flag_root`, the name that begins their flags.
    """

    flag_root: ClassVar[str] = ""

    # The methods import `flags` when they are called: it needs modules that scenarios do not.

    def __getitem__(self, flag: str) -> Any:
        from tfaip.params.settings import get_flag

        return get_flag(self, flag)

    def __setitem__(self, flag: str, value: Any) -> None:
        self.set_flags({flag: value})

    def set_flags(self, values: Mapping[str, Any]) -> None:
        """Set several values by their flags; see `tfaip.params.settings.set_flags`."""
        from tfaip.params.settings import set_flags

        set_flags(self, values)
