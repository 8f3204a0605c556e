"""Findings of the check of a scenario."""

from __future__ import annotations

import enum
import inspect
import re
from dataclasses import dataclass
from typing import Any

from tfaip.util.origin import find_place, message_of

# The line after the decorators.
_DEFINITION = re.compile(r"\s*(async\s+def|def|class)\b")


class Kind(enum.StrEnum):
    """Kinds of findings; the value is what the command prints."""

    UNCALLED = "uncalled-method"
    OLD_NAME = "old-name"
    BACKEND_IMPORT = "backend-import"
    UNPICKLABLE = "unpicklable-processor"
    UNCOMPILED = "uncompiled-layer"
    UNKNOWN_RANK = "unknown-rank"
    CHANGED_DEFAULT = "changed-default"
    FAILS = "fails"


@dataclass(frozen=True, order=True)
class Finding:
    """Something in the code of a scenario that should be changed.

    Args:
        file: path of the file.
        line: number of the line, from 1.
        kind: what it is.
        text: what is there, and what happens.
        advice: what to change.
    """

    file: str
    line: int
    kind: Kind
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.kind}: {self.text}; {self.advice}"


def finding_at(code: Any, kind: Kind, text: str, advice: str) -> Finding:
    """Return a finding at the definition of a class or function.

    Args:
        code: the class or function; one that no file defines has the line 0 of no file.
        kind: of the finding.
        text: of the finding.
        advice: of the finding.
    """
    try:
        file = inspect.getsourcefile(code) or ""
        lines, first = inspect.getsourcelines(code)
        line = first + next((i for i, text in enumerate(lines) if _DEFINITION.match(text)), 0)
    except (OSError, TypeError):
        file, line = "", 0
    return Finding(file, line, kind, text, advice)


def finding_of_error(error: Exception, kind: Kind, code: Any, text: str, advice: str) -> Finding:
    """Return a finding at the line of the user's code that led to an error, or else at `code`.

    Args:
        error: what was raised.
        kind: of the finding.
        code: class or function that was tried.
        text: of the finding; the message of the error follows it.
        advice: of the finding.
    """
    message = " ".join(message_of(error).split())
    text = f"{text}: {type(error).__name__}: {message}"
    place = find_place(error)
    if place is None:
        return finding_at(code, kind, text, advice)
    return Finding(place.file, place.line, kind, text, advice)
