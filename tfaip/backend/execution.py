"""What `fit` executes: single steps or a compiled loop of them, and the elements of datasets that they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass
class Execution:
    """Execution of the steps of a model in `fit`; JAX decides it before the first step, TensorFlow never.

    XLA compiles a step in a loop into other code than the same step alone, whose results may differ by rounding. So a
    training never changes from one to the other, and its checkpoints store what was decided.

    Args:
        is_automatic: the number of steps per execution was not chosen by the user.
        loops: True: every step runs in a compiled loop, which a call may run several times; False: each step is a call;
            None: it is not decided.
        platform: of the devices for which that was decided.
    """

    is_automatic: bool = True
    loops: bool | None = None
    platform: str | None = None

    def decided(self, platform: str) -> bool | None:
        """Return `loops` if it holds on a platform; None: it is to be decided."""
        return self.loops if platform == self.platform else None

    def to_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {"loops": self.loops, "platform": self.platform}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Execution:
        """Return what a checkpoint has stored.

        Raises:
            KeyError: if a part is missing.
            TypeError: if a part has another type.
        """
        loops, platform = stored["loops"], stored["platform"]
        if not (isinstance(loops, bool | None) and isinstance(platform, str | None)):
            raise TypeError(f"execution is {dict(stored)}")
        return cls(loops=loops, platform=platform)


MARK = "is_whole"
"""Key of what tells several devices whether each has the whole batch, in a third part of an element."""


def packed(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the parts of an element as the steps of Keras take them."""
    batch = (parts[0], parts[1])
    return (batch,) if len(parts) == 2 else (batch, parts[2][MARK])
