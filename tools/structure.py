"""Picture of the packages in docs/architecture.md, drawn from the import contracts and the imports themselves.

    python tools/structure.py            # draw the picture again
    python tools/structure.py --check    # fail if the page shows another one (part of `make lint`)

A box is a package, an arrow an import. An arrow is left out where a chain of others says the same, so that the picture
stays readable.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"
PACKAGE = "tfaip"
BEGIN, END = "<!-- picture: tools/structure.py -->\n", "<!-- end of the picture -->\n"


def read_layers() -> list[list[str]]:
    """Return the packages of each layer, the highest first, as the contract lists them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "layers")
    return [[name.strip() for name in layer.split("|")] for layer in layers]


def read_imports(packages: list[str]) -> dict[str, set[str]]:
    """Return for each package those that it imports, directly or through others."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    for package in packages:
        module = f"{PACKAGE}.{package}"
        if graph.find_children(module):
            graph.squash_module(module)
    return {
        package: {
            name.removeprefix(f"{PACKAGE}.")
            for name in graph.find_modules_directly_imported_by(f"{PACKAGE}.{package}")
            if name not in (PACKAGE, f"{PACKAGE}.{package}")
        }
        for package in packages
    }


def without_shortcuts(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports without those that a chain of others implies."""
    reachable: dict[str, set[str]] = {}
    for package in reversed(imports):  # the lowest first
        reachable[package] = set(imports[package])
        for imported in imports[package]:
            reachable[package] |= reachable[imported]
    kept: dict[str, set[str]] = {}
    for package, imported in imports.items():
        implied = set().union(*(reachable[name] for name in imported)) if imported else set()
        kept[package] = imported - implied
    return kept


def draw() -> str:
    """Return the picture as a block of Markdown."""
    layers = read_layers()
    packages = [package for layer in layers for package in layer]
    lines = ["```mermaid", "graph TD"]
    for package, imported in without_shortcuts(read_imports(packages)).items():
        lines += [f"  {package} --> {name}" for name in sorted(imported, key=packages.index)]
    return "\n".join([*lines, "```", ""])


def main() -> int:
    """Draw or check the picture; returns the exit code."""
    text = PAGE.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        print(f"{PAGE} has no place for the picture: expected the lines {BEGIN.strip()} and {END.strip()}")
        return 1
    drawn = f"{before}{BEGIN}{draw()}{END}{after}"
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(drawn, encoding="utf-8")
        return 0
    if drawn != text:
        print(f"{PAGE} shows an old picture of the packages: run {sys.executable} tools/structure.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
