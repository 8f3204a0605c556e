"""The Markdown pages of the repository as pages of a site: the table of contents, titles as texts of links."""

from __future__ import annotations

import re
from typing import Any

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

# Heading -> its pages, in the order of the side bar.
CONTENTS = {
    "Start": [
        "docs/quickstart",
        "docs/installation",
        "docs/which_option",
        "docs/training",
        "docs/scenario",
        "docs/command_line",
        "docs/python",
    ],
    "Guide": [
        "docs/data",
        "docs/layers",
        "docs/variable_length",
        "docs/evaluation",
        "docs/export",
        "docs/optimizer",
        "docs/learning_rate",
        "docs/schedules",
        "docs/warm_start",
        "docs/growing",
        "docs/stages",
        "docs/sweeps",
        "docs/mlflow",
        "docs/wandb",
        "docs/devices",
        "docs/testing",
        "docs/params",
    ],
    "Examples": ["examples/*/README"],
    "Reference": ["docs/api/*", "docs/long_form", "CHANGELOG"],
    "Migration": ["docs/migration_returnn", "docs/migration_lightning", "docs/migration_1.2"],
    "Development": ["CONTRIBUTING", "benchmarks/README", "SECURITY"],
}
# A link whose text is the name of the file, and a page that is named without a link.
FILE_LINK = re.compile(r"(?<!`)\[(?:[\w.]+/)*([\w.]+\.md)\]\(((?:[\w.]+/)*\1(?:#[\w-]+)?)\)")
FILE_NAME = re.compile(r"`(docs/[\w.]+\.md)`")
CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def contents() -> str:
    """Return the table of contents as directives of MyST."""
    groups = [
        "\n".join(["```{toctree}", ":hidden:", ":glob:", f":caption: {heading}", "", *pages, "```"])
        for heading, pages in CONTENTS.items()
    ]
    return "\n\n".join(groups)


def prepare(app: Sphinx, name: str, source: list[str]) -> None:
    """Let links show the titles of pages, and give the front page the table of contents."""
    parts = CODE.split(source[0])
    parts[::2] = [FILE_NAME.sub(r"[](/\1)", FILE_LINK.sub(r"[](\2)", text)) for text in parts[::2]]
    source[0] = "".join(parts)
    if name == app.config.root_doc:
        source[0] += f"\n\n{contents()}\n"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the hook, and pictures in the language of Mermaid as the text that they are."""
    app.connect("source-read", prepare)
    app.add_lexer("mermaid", TextLexer)
    return {"parallel_read_safe": True}
