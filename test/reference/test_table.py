"""Each test that `facts.toml` names exists, with the parameter that it names."""

import ast
import functools
import tomllib
from pathlib import Path

from test.support.commands import REPOSITORY


@functools.cache
def parameters(file: Path) -> dict[str, set[str]]:
    """Each test of a file, `name` or `Class::name`, with the texts and keys of tables in its decorators."""
    found: dict[str, set[str]] = {}
    module = ast.parse(file.read_text())
    parents: list[tuple[str, ast.Module | ast.ClassDef]] = [("", module)]
    tables: dict[str, list[ast.expr | None]] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            tables[ast.unparse(target)] = statement.value.keys
    for prefix, parent in parents:
        for node in parent.body:
            if isinstance(node, ast.ClassDef):
                parents.append((f"{prefix}{node.name}::", node))
            elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                inside = [part for decorator in node.decorator_list for part in ast.walk(decorator)]
                inside += [key for n in inside if isinstance(n, ast.Name) for key in tables.get(n.id, []) if key]
                found[f"{prefix}{node.name}"] = {str(c.value) for c in inside if isinstance(c, ast.Constant)}
    return found


def is_gone(test: str, root: Path = REPOSITORY) -> bool:
    """Look for `file::name`, or `file::name[text]` with one of its parameters."""
    path, _, name = test.partition("::")
    name, _, text = name.removesuffix("]").partition("[")
    if not (root / path).is_file():
        return True
    tests = parameters(root / path)
    return name not in tests or (text != "" and text not in tests[name])


def test_every_named_test_exists() -> None:
    documents = tomllib.loads(Path(__file__).with_name("facts.toml").read_text())
    assert len(documents) == 5
    gone = []
    for document, sections in documents.items():
        for section, facts in sections.items():
            for fact, tests in facts.items():
                gone += [f"{document}, {section}: {fact}: {test} is gone" for test in tests if is_gone(test)]
                if not tests:
                    gone.append(f"{document}, {section}: {fact}: no test")
    assert not gone, "\n".join(gone)
