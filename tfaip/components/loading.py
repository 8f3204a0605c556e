"""Import of a scenario class by a name that a user types or a file stores.

A user may type `pkg`, `pkg.scenario`, `pkg.scenario:Class`, or a path. A stored name is always
`module:Class`; it must not lead to code that the user neither installed nor named.
"""

import importlib
import importlib.util
import inspect
import pkgutil
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from tfaip.backend.environment import import_keras
from tfaip.components.scenario import ScenarioComponents
from tfaip.components.userlogs import user_logs
from tfaip.errors import UsageError
from tfaip.params.names import nearest
from tfaip.util import importpath
from tfaip.util.logging import has_console, logger
from tfaip.util.text import shorten, shorten_text

ScenarioClass = type[ScenarioComponents[Any, Any]]
# Characters of a name in a stored file; far more than any real one has.
_LONGEST_NAME = 200
# A module that loads Keras at its top: it is imported before, without the start-up messages of TensorFlow.
_LOADS_KERAS = re.compile(
    r"^(import|from) (keras|tensorflow)\b|^from tfaip\S* import .*\b(Model|Graph|Layer)Base\b", re.M
)


def load_scenario(name: str, first: bool = True) -> ScenarioClass:
    """Import a scenario class that a user named; add the working directory to the Python path.

    Args:
        name: module (`pkg.scenario`), package with a `scenario` module (`pkg`), either one with
            `:Class`, or the path of a Python file or of a package directory.
        first: search the working directory, and that of a path, before the installed packages instead of after them.

    Raises:
        UsageError: if there is no such module, it fails to import, or it defines no scenario or several.
    """
    importpath.add_working_directory(first)
    module_name, _, class_name = name.partition(":")
    if is_given_by_path(name):
        module_name = _module_of_path(Path(module_name), first)
    return _scenario_in(module_name, class_name)


def _scenario_in(module_name: str, class_name: str) -> ScenarioClass:
    module = _import(module_name)
    if hasattr(module, "__path__") and not _scenarios_of(module):
        module = _import(f"{module_name}.scenario")
    found = _scenarios_of(module)
    if not class_name:
        return _only_scenario(module, found)
    value = getattr(module, class_name, None)
    if inspect.isclass(value) and issubclass(value, ScenarioComponents):
        return value
    names = ", ".join(sorted(found)) or "none"
    raise UsageError(f"module {module.__name__} has no scenario named {shorten(class_name)}; it defines {names}")


def is_given_by_path(name: str) -> bool:
    """Return True if a user named a scenario by the path of a file or directory."""
    path = name.partition(":")[0]
    return "/" in path or path.endswith(".py") or path in {".", ".."}


def _module_of_path(path: Path, first: bool) -> str:
    """Return the dotted name of a file or package directory, and make it importable."""
    path = path.resolve()
    if not path.is_file() and not any((path / name).exists() for name in ("__init__.py", "scenario.py")):
        raise UsageError(
            f"no scenario at {shorten_text(str(path), 160)}: expected a Python file, or a directory with scenario.py"
        )
    parts = [path.stem if path.is_file() else path.name]
    root = path.parent
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    importpath.add_directory(str(root), first)
    return ".".join(parts)


def _import(name: str) -> ModuleType:
    try:
        spec = None if name in sys.modules else importlib.util.find_spec(name)
        source = "" if spec is None else spec.origin or ""
        if source.endswith(".py") and _LOADS_KERAS.search(Path(source).read_text("utf-8", "replace")):
            import_keras()
        with user_logs(*[name] if has_console() else []):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        # SystemExit: a script that was named by mistake may end the process when it is imported.
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(f"{missing}.")):
            raise UsageError(f"no module named {shorten(name)}{_near_modules(name, missing)}") from error
        reason = f"{type(error).__name__}: {shorten_text(str(error), 150)}"
        raise UsageError(f"scenario module {shorten_text(name)} fails to import: {reason}") from error


def _near_modules(name: str, missing: str) -> str:
    """Return a suggestion for a message: modules beside `missing`, the part that does not exist."""
    parent, _, last = missing.rpartition(".")
    paths = getattr(sys.modules.get(parent), "__path__", []) if parent else [str(Path.cwd())]
    prefix, rest = f"{parent}." if parent else "", name[len(missing) :]
    beside = {info.name for info in pkgutil.iter_modules(paths)} - {last} - sys.stdlib_module_names
    near = [f"{prefix}{module}{rest}" for module in nearest(last, beside)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _scenarios_of(module: ModuleType) -> dict[str, ScenarioClass]:
    """Return the scenarios that `module` defines, or re-exports from a submodule, by name."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value)
        and issubclass(value, ScenarioComponents)
        and (value.__module__ == module.__name__ or value.__module__.startswith(f"{module.__name__}."))
        and not name.startswith("_")
    }


def _only_scenario(module: ModuleType, found: Mapping[str, ScenarioClass]) -> ScenarioClass:
    if not found:
        raise UsageError(f"module {module.__name__} defines no scenario: expected a subclass of ScenarioBase")
    # A scenario that another one of the module extends is a base, not a choice.
    bases = {base for cls in found.values() for base in cls.__mro__[1:]}
    leaves = set(found.values()) - bases
    if len(leaves) > 1:
        choices = ", ".join(f"{module.__name__}:{name}" for name in sorted(found) if found[name] in leaves)
        raise UsageError(f"module {module.__name__} defines several scenarios, name one: {choices}")
    return leaves.pop()


def import_root(scenario: ScenarioClass) -> str | None:
    """Return the directory that must be on the Python path to import the package of a scenario.

    None if the package is tfaip itself, or if the scenario is in no file, as in a notebook.
    """
    name = scenario.__module__.partition(".")[0]
    package = sys.modules.get(name)
    paths = list(getattr(package, "__path__", [])) or [getattr(package, "__file__", None)]
    return None if name == "tfaip" or paths[0] is None else str(Path(paths[0]).absolute().parent)


def load_trusted_scenario(scenario_id: str, typed_root: str | None = None) -> ScenarioClass:
    """Import the scenario that a stored file names, and log which package is trusted by that.

    Modules are searched in the installed packages first, then in `typed_root` and in the working
    directory, unless that belongs to a model or a run.

    Args:
        scenario_id: `module:Class`.
        typed_root: the directory that the user imported the scenario from, according to the user's own record.

    Raises:
        UsageError: if the name has another form, is in the standard library, or is not that of a scenario.
    """
    module_name, _, class_name = scenario_id.partition(":")
    parts = [*module_name.split("."), class_name]
    if len(scenario_id) > _LONGEST_NAME or not all(part.isidentifier() for part in parts):
        raise UsageError(f"scenario_id {shorten(scenario_id)} is not of the form module:Class")
    package = parts[0]
    if package == "__main__":
        # Only the script itself has the class. It must not be imported again, which would run it.
        scenario = getattr(sys.modules["__main__"], class_name, None)
        if inspect.isclass(scenario) and issubclass(scenario, ScenarioComponents):
            return scenario
        raise UsageError(
            f"scenario_id {shorten(scenario_id)} names a class of the script that trained it, which other programs "
            "cannot import: move the class to a module and train with that"
        )
    if package in sys.stdlib_module_names:
        raise UsageError(f"scenario_id {shorten(scenario_id)} names a module of the standard library: not imported")
    if typed_root is not None:
        importpath.add_directory(typed_root, first=False)
    has_added = importpath.add_working_directory(first=False)
    try:
        scenario = _scenario_in(module_name, class_name)
    except UsageError as error:
        if importlib.util.find_spec(package) is None:
            # The scenario was named by its path, or from another working directory.
            why = "" if has_added else "; nothing is imported from the directory of a model or a run"
            raise UsageError(f"{error}{why}; put the directory that holds {package} on the PYTHONPATH") from error
        raise
    if package != "tfaip":
        logger(__name__).info("importing the package %s: the stored params say that it holds the scenario", package)
    return scenario


def scenario_id_of(values: Mapping[str, Any], source: Path | str) -> str:
    """Return the name of the scenario in the content of a `trainer_params.json`."""
    scenario = values.get("scenario")
    scenario_id = scenario.get("scenario_id") if isinstance(scenario, Mapping) else None
    if not isinstance(scenario_id, str):
        raise UsageError(f"{source} names no scenario (scenario.scenario_id): expected the params of a trainer")
    return scenario_id
