"""The documentation site: `make docs` builds it from the Markdown files of the repository and from docstrings."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

from tfaip.backend.environment import import_backend  # noqa: E402
from tfaip.version import __version__  # noqa: E402

import_backend()  # quietly, before the API reference imports what needs it

project = "tfaip"
version = release = __version__
html_title = f"tfaip {release}"
language = "en"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "pages", "paramsfields"]
# The source directory is that of the repository: links between its files are the same here and in a repository viewer.
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "docs/api/*.md", "examples/*/README.md", "benchmarks/README.md"]
exclude_patterns = [".*", "build", "dist", "runs", "test", "tfaip", "tools", "**/__pycache__"]
exclude_patterns += ["docs/architecture.md", "docs/keras_notes.md"]  # for maintainers, who read the repository
templates_path = ["_templates"]
html_additional_pages = {"index": "index.html"}

html_theme = "furo"
html_static_path = ["_static"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
pygments_style, pygments_dark_style = "tango", "monokai"

myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"
