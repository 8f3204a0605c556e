"""Config files: flags and their values in YAML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.sources import Source
from tfaip.util.reading import MAX_DEPTH, MIB, parse_json, read_text
from tfaip.util.text import shorten, shorten_text

# The parser of YAML is written in Python, much slower than that of JSON, which may be larger.
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

    try:
        document = _loader(text).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise UsageError(f"{name}: broken YAML{where}: {shorten_text(str(error.problem), 120)}") from error
    except RecursionError as error:
        raise UsageError(f"{name}: YAML is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError) as error:
        # Also raised by the constructors of numbers, dates and binary data.
        raise UsageError(f"{name}: broken YAML: {shorten_text(str(error), 120)}") from error
    if not isinstance(document, dict):
        raise UsageError(f"{shorten_text(name)}: expected flags and values, got {type(document).__name__}")
    return document


def _loader(text: str) -> Any:
    import yaml

    class BoundedLoader(yaml.SafeLoader):
        """Safe loader of a bounded number of values and levels; an alias counts as a copy."""

        nodes = values = 0

        def document(self) -> Any:
            """Return the document; an empty one holds no flags."""
            root = self.get_single_node()
            return {} if root is None else self.value_of(root, 0)

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            self.nodes += 1
            if self.nodes > YAML_VALUES:
                raise yaml.YAMLError(f"more than {YAML_VALUES} values; a JSON file may hold more")
            return super().compose_node(parent, index)

        def value_of(self, node: yaml.Node, depth: int) -> Any:
            """Return the plain value of a node at some depth."""
            self.values += 1
            if self.values > YAML_VALUES:
                raise yaml.YAMLError(f"more than {YAML_VALUES} values if all aliases are written out")
            if depth > MAX_DEPTH:  # also if a node contains itself
                raise yaml.YAMLError(f"nested too deeply (more than {MAX_DEPTH} levels)")
            tag = node.tag.removeprefix("tag:yaml.org,2002:")
            if tag == "int" and len(node.value) > _LONGEST_INTEGER:
                raise _marked(f"a number has more than {_LONGEST_INTEGER} digits", node)
            if isinstance(node, yaml.ScalarNode):
                return self.construct_object(node, deep=True)
            if tag == "seq":
                return [self.value_of(item, depth + 1) for item in node.value]
            if tag != "map":
                raise _marked(f"could not determine a value for the tag {shorten(tag)}", node)
            found: dict[str, Any] = {}
            for key, item in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise _marked("key is not a plain name", key)
                if key.value in found:  # YAML itself would take the last one
                    raise _marked(f"key {shorten(key.value)} is given twice", key)
                found[key.value] = self.value_of(item, depth + 1)
            return found

    def _marked(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
        return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)

    return BoundedLoader(text)
