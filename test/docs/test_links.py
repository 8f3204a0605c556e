"""Links of all Markdown files: the files and headings that they lead to exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt
from markdown_it.token import Token

from test.support.commands import REPOSITORY

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "benchmarks/*.md")
    for path in REPOSITORY.glob(pattern)
)


@cache
def tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


@cache
def anchors(page: Path) -> list[str]:
    """The anchors of the headings, as repository viewers and the site make them."""
    found: list[str] = []
    for opening, inline in zip(tokens(page), tokens(page)[1:], strict=False):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return found


def targets(page: Path) -> list[str]:
    """What links and pictures lead to, without the addresses of other sites."""
    children = [child for token in tokens(page) for child in token.children or ()]
    found = [str(child.attrs.get("href") or child.attrs.get("src") or "") for child in children]
    return [target for target in found if target and not re.match(r"\w+:", target)]


def leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = unquote(target).partition("#")
    path = (page.parent / name).resolve() if name else page
    return path.is_file() and (not anchor or anchor in anchors(path))


def test_links_lead_to_files_and_headings() -> None:
    wrong = [(page.name, target) for page in PAGES for target in targets(page) if not leads_somewhere(page, target)]
    assert wrong == []


def test_every_page_of_the_guide_is_linked_from_the_front_page() -> None:
    of_development = {"architecture.md", "keras_notes.md"}
    linked = {target.removeprefix("docs/") for target in targets(REPOSITORY / "README.md")}
    assert {path.name for path in (REPOSITORY / "docs").glob("*.md")} - linked <= of_development
