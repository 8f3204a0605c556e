"""Figures of the package, and the budgets that they must keep (`budgets.toml`); `structure.py` checks them."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("budgets.toml")
LOWER = "python tools/structure.py --budgets"
# Share of a budget by which a figure may be below it: so small changes in parallel branches do not meet in the table.
SLACK = 0.02

_BUDGET = re.compile(r'"?([\w. ]+?)"? = (\d+)(?=\s|$)')
_PRIVATE_MODULE = re.compile(r"(^|\.)(_(?!_)\w+|src|python|compat|internal)(\.|$)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Source:
    """A file of Python.

    Args:
        path: relative to the directory that was read.
        lines: its lines.
        tree: the same, parsed.
        nodes: all nodes of the tree.
    """

    path: Path
    lines: list[str]
    tree: ast.Module
    nodes: list[ast.AST]


def read_sources(root: Path) -> dict[Path, Source]:
    """Read and parse all files below a directory once; return them by their path."""
    sources = {}
    for path in sorted(root.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        sources[path] = Source(path.relative_to(root), text.splitlines(), tree, list(ast.walk(tree)))
    return sources


def check_budgets(sources: Mapping[Path, Source], tests: Path) -> list[str]:
    """Return what is wrong with the figures and with the list of private names, one line each."""
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    budgets = {**table["code_lines"], **table["counts"]}
    figures = count_figures(sources, tests, table)
    problems = [f"{name}: a package without a budget in {TABLE.name}" for name in figures.keys() - budgets.keys()]
    for name, budget in budgets.items():
        figure = figures[name]
        if figure > budget:
            problems.append(
                f"{name}: {figure:,} is above the budget of {budget:,} in {TABLE.name}: a feature enters with a "
                "reference document, a client or an issue behind it"
            )
        elif figure < budget * (1 - SLACK):
            problems.append(f"{name}: {figure:,} is below the budget of {budget:,}: lower it with {LOWER}")
    return problems + check_private_names(sources, table)


def lower_budgets(sources: Mapping[Path, Source], tests: Path) -> None:
    """Write the figures that are below their budgets into the table."""
    text = TABLE.read_text(encoding="utf-8")
    figures = count_figures(sources, tests, tomllib.loads(text))

    def lowered(line: str) -> str:
        found = _BUDGET.match(line)
        if found is None:
            return line
        return line[: found.start(2)] + str(min(int(found[2]), figures[found[1]])) + line[found.end(2) :]

    TABLE.write_text("\n".join(map(lowered, text.split("\n"))), encoding="utf-8")


def count_figures(sources: Mapping[Path, Source], tests: Path, table: Mapping[str, Any]) -> dict[str, int]:
    """Return the figures by the names of their budgets; those of packages without a budget by their own names."""
    groups = {package: group for group in table["code_lines"] for package in group.split()}
    figures = dict.fromkeys(table["code_lines"], 0)
    for source in sources.values():
        is_alone = len(source.path.parts) == 1 and source.path.stem not in groups  # else a package of one file
        package = "." if is_alone else source.path.with_suffix("").parts[0]
        group = groups.get(package, package)
        figures[group] = figures.get(group, 0) + code_lines(source)
    nodes = [node for source in sources.values() for node in source.nodes]
    names = {kind: sum(len(entry["names"].split()) for entry in table[kind]) for kind in ("private", "matched")}
    test_lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests.rglob("*.py"))
    return {
        **figures,
        "files": sum(len(source.lines) > 1 for source in sources.values()),
        "options": sum(_called(node) == "option" for node in nodes),
        "private_names": names["private"],
        "matched_names": names["matched"],
        "imports_in_functions": count_inner_imports(nodes),
        "test_lines": test_lines,
    }


def code_lines(source: Source) -> int:
    """Return the number of lines with code: no blanks, comments and docstrings, neither of classes nor of fields."""
    code = {i for i, line in enumerate(source.lines, start=1) if line.strip() and not line.lstrip().startswith("#")}
    texts: set[int] = set()
    for node in source.nodes:
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            code |= _lines_of(node)  # what looks like a comment or is blank within a text
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            texts |= _lines_of(node)
    return len(code - texts)


def _lines_of(node: Any) -> set[int]:
    return set(range(node.lineno, node.end_lineno + 1))


def count_inner_imports(nodes: list[ast.AST]) -> int:
    """Return the number of import statements within functions."""
    inner = {
        id(statement)
        for node in nodes
        if isinstance(node, _FUNCTIONS)
        for statement in ast.walk(node)
        if isinstance(statement, ast.Import | ast.ImportFrom)
    }
    return len(inner)


def check_private_names(sources: Mapping[Path, Source], table: Mapping[str, Any]) -> list[str]:
    """Return the private names of other projects that are not listed, and the listed ones that are not used."""
    listed = set(table["documented"].split())
    problems = []
    texts = {source.path.as_posix(): "\n".join(source.lines) for source in sources.values()}
    for entry in [*table["private"], *table["matched"]]:
        text = texts.get(entry["used_in"], "")
        for name in entry["names"].split():
            path = f"{entry['of']}.{name}".split(".")
            listed |= {path[-1], *(".".join(path[:end]) for end in range(1, len(path) + 1))}
            if not re.search(rf"(?<!\w){entry.get('found_as', path[-1])}(?!\w)", text):
                problems.append(f"{'.'.join(path)} is not in {entry['used_in']} any more: mend {TABLE.name}")
    own = own_names(sources)
    for source in sources.values():
        for line, name in private_looking(source, own):
            if name not in listed:
                problems.append(f"{source.path}:{line}: {name} of another project is private: list it in {TABLE.name}")
    return problems


def own_names(sources: Mapping[Path, Source]) -> set[str]:
    """Return all names that the package defines or assigns."""
    own = set()
    for source in sources.values():
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.id if isinstance(node, ast.Name) else node.attr)
    return own


def private_looking(source: Source, own: set[str]) -> Iterator[tuple[int, str]]:
    """Yield line and name of what looks like a private name of another project: attributes, texts and modules."""
    for node in source.nodes:
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif _called(node) in ("getattr", "hasattr", "setattr"):
            name = node.args[1]  # type: ignore[attr-defined]
            names = [str(name.value)] if isinstance(name, ast.Constant) else []
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
            names = [name for name in modules if _PRIVATE_MODULE.search(name)]
        elif isinstance(node, ast.ImportFrom):
            members = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name for name in members if _PRIVATE_MODULE.search(name) and not name.startswith("tfaip.")]
        for name in names:
            is_hidden = name.startswith("_") and not name.startswith("__") and name not in own
            if is_hidden or "." in name:
                yield node.lineno, name  # type: ignore[attr-defined]


def _called(node: ast.AST) -> str:
    """Return the name of the function that a call calls; empty for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    return getattr(node.func, "id", getattr(node.func, "attr", ""))
