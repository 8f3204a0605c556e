"""Rules of a transfer: selection of weights, and the names by which source and target are matched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfaip.trainer.pathpatterns import expected_pattern, path_matches
from tfaip.util.text import shorten_text

ARROW = "->"

Substitution = tuple[re.Pattern[str], str]


@dataclass(frozen=True)
class NameRules:
    """Rules of one transfer.

    Args:
        include: only target weights that this matches take part (None: all); see `path_matches`.
        exclude: target weights that this matches take no part.
        rename: substitutions on the names of the source, in order.
        rename_targets: substitutions on the paths of the target, before they are looked up in the source.
        add_suffix: appended to the paths of the target before they are looked up.
    """

    include: re.Pattern[str] | None = None
    exclude: re.Pattern[str] | None = None
    rename: tuple[Substitution, ...] = ()
    rename_targets: tuple[Substitution, ...] = ()
    add_suffix: str = ""

    @classmethod
    def parse(
        cls,
        include: str | None = None,
        exclude: str | None = None,
        rename: Sequence[str] = (),
        rename_targets: Sequence[str] = (),
        add_suffix: str = "",
    ) -> NameRules:
        """Parse rules that a user wrote as text, and that are already checked.

        Args:
            include: a regular expression, see `expected_pattern`.
            exclude: a regular expression.
            rename: substitutions as `old->new`, see `expected_substitution`.
            rename_targets: substitutions as `old->new`.
            add_suffix: appended to the paths of the target.
        """
        return cls(
            _compiled(include),
            _compiled(exclude),
            tuple(map(_substitution, rename)),
            tuple(map(_substitution, rename_targets)),
            add_suffix,
        )

    def selects(self, path: str) -> bool:
        """Return True if a target weight takes part."""
        if self.include is not None and not path_matches(self.include, path):
            return False
        return self.exclude is None or not path_matches(self.exclude, path)

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


def _compiled(pattern: str | None) -> re.Pattern[str] | None:
    return None if pattern is None else re.compile(pattern)


def _substitution(text: str) -> Substitution:
    old, _, new = text.partition(ARROW)
    return re.compile(old), new


def _substituted(name: str, substitutions: Sequence[Substitution]) -> str:
    for pattern, new in substitutions:
        name = pattern.sub(new, name)
    return name
