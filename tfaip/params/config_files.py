"""Config files: flags and their values in YAML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.params.serialization import parse_json, read_text
from tfaip.params.sources import Source
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    import yaml


def load_config(name: str) -> Source:
    """Read a config file: `.yaml`, `.yml` or `.json`, with flags as keys, dotted or nested.

    Raises:
        UsageError: the file is missing or broken, or a key is given twice.
    """
    path = Path(name)
    if path.suffix == ".json":
        return Source(name, parse_json(read_text(path), name))
    if path.suffix in {".yaml", ".yml"}:
        return Source(name, _parse_yaml(read_text(path), name))
    raise UsageError(f"{shorten_text(name)}: expected a file that ends with .yaml, .yml or .json")


def _parse_yaml(text: str, name: str) -> dict[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """The safe loader, which lets the last one of equal keys win, made to refuse them."""

    def construct_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key in found:
                reason = "is not a plain name" if key is None else f"{key!r} is given twice"
                raise yaml.MarkedYAMLError(problem=f"key {reason}", problem_mark=key_node.start_mark)
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Loader.add_constructor("tag:yaml.org,2002:map", construct_mapping)
    try:
        document = yaml.load(text, Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{name}: broken YAML{where}: {error.problem}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UsageError(f"{name}: broken YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"{shorten_text(name)}: expected flags and values, got {type(document).__name__}")
    return document
