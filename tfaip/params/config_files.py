"""Config files: flags and their values in YAML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.params.sources import Source
from tfaip.util.reading import MAX_DEPTH, MIB, parse_json, read_text
from tfaip.util.text import shorten, shorten_text

if TYPE_CHECKING:
    import yaml

YAML_BYTES = 4 * MIB
# Each value takes about 3 kB while it is read.
YAML_VALUES = 50_000
# As many digits as Python reads; in base 60 (`1:30:00`) a longer number would take minutes.
_LONGEST_INTEGER = 4300


def load_config(name: str) -> Source:
    """Read a config file: `.yaml`, `.yml` or `.json`, with flags as keys, dotted or nested.

    Raises:
        UsageError: the file is missing, broken or too large, or a key is given twice.
    """
    path = Path(name)
    if path.suffix == ".json":
        return Source(name, parse_json(read_text(path), name))
    if path.suffix in {".yaml", ".yml"}:
        return Source(name, _parse_yaml(read_text(path, YAML_BYTES), shorten_text(name)))
    raise UsageError(f"{shorten_text(name)}: expected a file that ends with .yaml, .yml or .json")


def _parse_yaml(text: str, name: str) -> dict[str, Any]:
    import yaml

    class Loader(yaml.SafeLoader):
        """The safe loader with a bounded number of values; equal keys, of which it takes the last one, are refused."""

        values = 0

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            self.values += 1
            if self.values > YAML_VALUES:
                raise yaml.YAMLError(f"more than {YAML_VALUES} values; a JSON file may hold more")
            return super().compose_node(parent, index)

        def get_single_node(self) -> yaml.Node | None:
            node = super().get_single_node()
            if node is not None:
                _expanded_size(node, {}, 0)
            return node

    def construct_mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key is None or key in found:
                reason = "is not a plain name" if key is None else f"{shorten(key)} is given twice"
                raise yaml.MarkedYAMLError(problem=f"key {reason}", problem_mark=key_node.start_mark)
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    def construct_integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
        if len(node.value) > _LONGEST_INTEGER:
            raise yaml.MarkedYAMLError(
                problem=f"a number has more than {_LONGEST_INTEGER} digits", problem_mark=node.start_mark
            )
        return loader.construct_yaml_int(node)

    Loader.add_constructor("tag:yaml.org,2002:map", construct_mapping)
    Loader.add_constructor("tag:yaml.org,2002:int", construct_integer)
    try:
        document = yaml.load(text, Loader)  # noqa: S506 - a subclass of the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{name}: broken YAML{where}: {shorten_text(str(error.problem), 120)}") from error
    except RecursionError as error:
        raise UsageError(f"{name}: YAML is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError) as error:
        # Also what the constructors of numbers, dates and binary data raise for a text that is none.
        raise UsageError(f"{name}: broken YAML: {shorten_text(str(error), 120)}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"{shorten_text(name)}: expected flags and values, got {type(document).__name__}")
    return document


def _expanded_size(node: yaml.Node, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """Return the number of values below a node and the number of levels, with every alias counted as a copy.

    Args:
        node: the root, or a part of it.
        known: results of nodes that were seen before; an alias is the same node again.
        depth: levels above the node.

    Raises:
        yaml.YAMLError: there are too many values or levels, or a node holds itself.
    """
    import yaml

    if id(node) in known:
        return known[id(node)]
    if depth > MAX_DEPTH:  # also if a node is within itself
        raise yaml.YAMLError(f"nested too deeply (more than {MAX_DEPTH} levels)")
    size, levels = 1, 0
    for child in _children(node):
        child_size, child_levels = _expanded_size(child, known, depth + 1)
        size, levels = size + child_size, max(levels, child_levels + 1)
    if depth + levels > MAX_DEPTH:
        raise yaml.YAMLError(f"nested too deeply (more than {MAX_DEPTH} levels)")
    if size > YAML_VALUES:
        raise yaml.YAMLError(f"more than {YAML_VALUES} values if all aliases are written out")
    known[id(node)] = size, levels
    return size, levels


def _children(node: yaml.Node) -> list[yaml.Node]:
    if not isinstance(node.value, list):
        return []
    return [part for item in node.value for part in (item if isinstance(item, tuple) else (item,))]
