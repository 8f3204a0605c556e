"""Rules of a transfer: selection of weights, and the names by which source and target are matched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfaip.trainer.pathpatterns import expected_pattern, path_matches
from tfaip.util.text import shorten_text

ARROW = "->"


@dataclass(frozen=True)
class NameRules:
    """Rules of one transfer, as the user wrote them; they are already checked.

    Args:
        include: only target weights that this regular expression matches take part (None: all); see `path_matches`.
        exclude: target weights that this regular expression matches take no part.
        rename: substitutions `old->new` on the names of the source, in order; see `expected_substitution`.
        rename_targets: substitutions on the paths of the target, before they are looked up in the source.
        add_suffix: appended to the paths of the target before they are looked up.
    """

    include: str | None = None
    exclude: str | None = None
    rename: Sequence[str] = ()
    rename_targets: Sequence[str] = ()
    add_suffix: str = ""

    def selects(self, path: str) -> bool:
        """Return True if a target weight takes part."""
        if self.include is not None and not path_matches(re.compile(self.include), path):
            return False
        return self.exclude is None or not path_matches(re.compile(self.exclude), path)

    def renamed_source(self, name: str) -> str:
        """Return the name under which a weight of the source is found."""
        return _substituted(name, self.rename)

    def wanted_name(self, path: str) -> str:
        """Return the name under which a target weight is looked up."""
        return _substituted(path, self.rename_targets) + self.add_suffix


def expected_substitution(text: str) -> str | None:
    """Return in words what is expected instead of a text, or None if it is `old->new` with a regular expression old."""
    old, arrow, new = text.partition(ARROW)
    form = f"'old{ARROW}new' with "
    if not arrow or not old or ARROW in new:
        return f"{form}a regular expression old"
    expected = expected_pattern(old)
    if expected is not None:
        return form + expected.replace("expression", "expression old", 1)
    try:
        re.compile(old).sub(new, "")
    except (re.error, IndexError) as error:
        return f"{form}a replacement new ({shorten_text(str(error))})"
    return None


def _substituted(name: str, substitutions: Sequence[str]) -> str:
    for text in substitutions:
        old, _, new = text.partition(ARROW)
        name = re.sub(old, new, name)
    return name
