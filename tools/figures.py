"""Figures of the structure and style of a package, read from its files.

    python tools/figures.py [PACKAGE_DIR]          # default: tfaip

`tools/budgets.toml` has the figures that are limited.

Circles between files count every import: at load time, inside functions, for type checkers. Imports that the top
package and `imports` do to offer public names are left out.
"""

import ast
import re
import statistics
import sys
from pathlib import Path

import grimp
from budgets import read_sources

QUESTION_WORD = re.compile(r"(What|Whether|Where|How|That|Who|Which|Why)\b")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def main() -> None:
    """Print the figures."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else "tfaip").resolve()
    sources = list(read_sources(root).values())
    circles = find_circles(root)
    print(f"circles between files: {len(circles)} {[len(circle) for circle in circles]}")
    for circle in circles:
        print("   " + ", ".join(name.removeprefix(f"{root.name}.") for name in circle[:12]))
    lines = [line for source in sources for line in source.lines]
    nodes = [node for source in sources for node in source.nodes]
    functions = [number_of_lines(node) for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    print(f"lines of a file: {spread([len(source.lines) for source in sources if len(source.lines) > 1])}")
    print(f"lines of a function: {spread(functions)}")
    print_density(nodes, lines)


def print_density(nodes: list[ast.AST], lines: list[str]) -> None:
    """Print shares of the lines, and how docstrings begin."""
    total = len(lines)
    imports = sum(number_of_lines(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    comments = sum(line.lstrip().startswith("#") for line in lines)
    print(f"imports {100 * imports / total:.1f} % of lines, comments {100 * comments / total:.1f} %")
    comprehensions = sum(isinstance(node, COMPREHENSIONS) for node in nodes)
    conditionals = sum(isinstance(node, ast.IfExp) for node in nodes)
    print(
        f"per 100 lines: comprehensions {100 * comprehensions / total:.2f}, "
        f"conditional expressions {100 * conditionals / total:.2f}"
    )
    for width in (88, 100):
        longer = sum(len(line) > width for line in lines)
        print(f"lines over {width} columns: {100 * longer / total:.1f} %")
    docstrings = [ast.get_docstring(node) for node in nodes if isinstance(node, DOCUMENTED)]
    present = [text for text in docstrings if text]
    questions = sum(bool(QUESTION_WORD.match(text)) for text in present)
    print(f"docstrings {len(present)}, of them beginning with a question word {questions}")


def spread(sizes: list[int]) -> str:
    """Return median, ninth decile and maximum as text."""
    return f"median {statistics.median(sizes):.0f}, p90 {statistics.quantiles(sizes, n=10)[-1]:.0f}, max {max(sizes)}"


def number_of_lines(node: ast.AST) -> int:
    """Return the number of source lines of a statement."""
    return node.end_lineno - node.lineno + 1  # type: ignore[attr-defined]


def find_circles(root: Path) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or through others, the largest first."""
    sys.path.insert(0, str(root.parent))
    graph = grimp.build_graph(root.name, cache_dir=None)
    for offering in graph.modules & {root.name, f"{root.name}.imports"}:
        for imported in graph.find_modules_directly_imported_by(offering):
            graph.remove_import(importer=offering, imported=imported)
    below = {name: graph.find_upstream_modules(name) for name in sorted(graph.modules)}
    circles: list[list[str]] = []
    for name, others in below.items():
        group = sorted([name, *(other for other in others if name in below[other])])
        if len(group) > 1 and group not in circles:
            circles.append(group)
    return sorted(circles, key=len, reverse=True)


if __name__ == "__main__":
    main()
