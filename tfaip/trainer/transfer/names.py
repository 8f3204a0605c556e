"""Which weights take part in a transfer, and under which names source and target find each other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tfaip.util.pathpatterns import compile_pattern, path_matches
from tfaip.util.text import shorten

ARROW = "->"

Substitution = tuple[re.Pattern[str], str]


@dataclass(frozen=True)
class NameRules:
    """The rules of one transfer.

    Args:
        include: only target weights that this matches take part (None: all); see `path_matches`.
        exclude: target weights that this matches take no part.
        rename: substitutions on the names of the source, one after the other.
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
        flag: str,
        include: str | None = None,
        exclude: str | None = None,
        rename: Sequence[str] = (),
        rename_targets: Sequence[str] = (),
        add_suffix: str = "",
    ) -> NameRules:
        """The rules as a user writes them: regular expressions, and substitutions as `old->new`.

        Args:
            flag: start of the flags that they come from, for messages: `--warmstart`.

        Raises:
            ValueError: something is not a regular expression, or not `old->new`.
        """
        return cls(
            None if include is None else compile_pattern(include, f"{flag}.include"),
            None if exclude is None else compile_pattern(exclude, f"{flag}.exclude"),
            tuple(_substitution(text, f"{flag}.rename") for text in rename),
            tuple(_substitution(text, f"{flag}.rename_targets") for text in rename_targets),
            add_suffix,
        )

    def selects(self, path: str) -> bool:
        """Whether a target weight takes part."""
        if self.include is not None and not path_matches(self.include, path):
            return False
        return self.exclude is None or not path_matches(self.exclude, path)

    def renamed_source(self, name: str) -> str:
        """The name under which a weight of the source is found."""
        return _substituted(name, self.rename)

    def wanted_name(self, path: str) -> str:
        """The name under which a target weight is looked up."""
        return _substituted(path, self.rename_targets) + self.add_suffix


def _substitution(text: str, flag: str) -> Substitution:
    old, arrow, new = text.partition(ARROW)
    if not arrow or not old or ARROW in new:
        raise ValueError(
            f"{shorten(text)} is no substitution: expected {flag} 'old{ARROW}new', with a regular expression old"
        )
    pattern = compile_pattern(old, flag)
    try:
        pattern.sub(new, "")
    except (re.error, IndexError) as error:
        raise ValueError(f"{shorten(new)} cannot replace {shorten(old)} ({error}): change {flag}") from error
    return pattern, new


def _substituted(name: str, substitutions: Sequence[Substitution]) -> str:
    for pattern, new in substitutions:
        name = pattern.sub(new, name)
    return name
