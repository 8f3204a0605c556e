"""The two backends offer the same functions with the same arguments, and nothing else knows which one is in use."""

import ast
from pathlib import Path

import tfaip

PACKAGE = Path(tfaip.__file__).parent


def public_members(module: str) -> dict[str, str]:
    """Public names of a module of the backend; for functions and methods with their arguments and result."""
    tree = ast.parse((PACKAGE / "backend" / f"{module}.py").read_text())
    members = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            members[node.name] = signature(node)
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = [member for member in node.body if isinstance(member, ast.FunctionDef)]
            members.update({f"{node.name}.{method.name}": signature(method) for method in methods})
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            members[node.targets[0].id] = "a constant"
    return {name: text for name, text in members.items() if not name.split(".")[-1].startswith("_")}


def signature(function: ast.FunctionDef) -> str:
    result = "" if function.returns is None else ast.unparse(function.returns)
    return f"({ast.unparse(function.args)}) -> {result}"


def test_both_have_the_same_functions() -> None:
    tensorflow, jax = (public_members(name) | public_members(f"{name}steps") for name in ("tensorflow", "jax"))
    # How batches are stacked and what is fused; what of an array another process has, and loops.
    for name in ("CHUNK_BATCHES", "CHUNK_BYTES", "PREFETCHED_BATCHES", "no_data"):
        del tensorflow[name]
    del jax["local_value"], jax["operations"]
    tensorflow, jax = (
        {name: text for name, text in members.items() if not name.startswith(("FusedAdam.", "LoopedSteps."))}
        for members in (tensorflow, jax)
    )
    assert tensorflow == jax
    assert "CompiledStep.read" in jax


# Their files are TensorFlow programs, whatever computes here.
FORMATS_OF_TENSORFLOW = {"export/onnxformat.py", "export/savedmodelformat.py", "export/savedmodelvariables.py"}


def compares_backend_name(node: ast.AST) -> bool:
    """True for `... == "jax"` and the like."""
    if not isinstance(node, ast.Compare):
        return False
    constants = [side.value for side in (node.left, *node.comparators) if isinstance(side, ast.Constant)]
    return bool({"jax", "tensorflow"} & {value for value in constants if isinstance(value, str)})


def test_only_the_package_backend_asks_which_one_it_is() -> None:
    asking = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        if any(compares_backend_name(node) for node in ast.walk(tree)):
            asking.add(path.relative_to(PACKAGE).as_posix())
    assert {name for name in asking if not name.startswith("backend/")} <= FORMATS_OF_TENSORFLOW
