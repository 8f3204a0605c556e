"""Picture of the packages in docs/architecture.md, and the budgets.

    python tools/structure.py            # draw the picture again
    python tools/structure.py --check    # fail if it is out of date, or a budget is not kept (part of `make lint`)
    python tools/structure.py --budgets  # lower the budgets in budgets.toml to the figures of today

The picture shows the import contracts and the imports themselves: a box is a package, an arrow an import. An arrow is
left out where a chain of others says the same, so that the picture stays readable.
"""

import gc
import sys
import tomllib
from pathlib import Path

import grimp
from budgets import check_budgets, lower_budgets, read_sources

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


def page_with_picture() -> str:
    """Return the page of the architecture with the picture of today.

    Raises:
        SystemExit: if the page has no place for it.
    """
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        sys.exit(f"{PAGE} has no place for the picture: expected the lines {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}{draw()}{END}{after}"


def main() -> int:
    """Draw the picture or check it, check or lower the budgets; return the exit code."""
    gc.disable()  # the trees of all files stay, and are searched again and again
    sources = read_sources(ROOT / PACKAGE)
    if "--budgets" in sys.argv[1:]:
        lower_budgets(sources, ROOT / "test")
        return 0
    page = page_with_picture()
    is_outdated = PAGE.read_text(encoding="utf-8") != page
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page, encoding="utf-8")
        return 0
    problems = check_budgets(sources, ROOT / "test")
    if is_outdated:
        problems.append(f"{PAGE} is out of date; run {sys.executable} tools/structure.py")
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
