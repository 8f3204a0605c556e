"""Reader of YAML that is safe, and bounded in values and levels; imports the library."""

from __future__ import annotations

from typing import Any

import yaml

from tfaip.util.reading import MAX_DEPTH
from tfaip.util.text import shorten

# Each value takes about 3 kB while it is read.
YAML_VALUES = 50_000
# As many digits as Python reads; in base 60 (`1:30:00`) a longer number would take minutes.
_LONGEST_INTEGER = 4300


def read_document(text: str) -> Any:
    """Return the plain values of a document; an empty one holds no flags."""
    nodes = depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        nodes += isinstance(event, yaml.NodeEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise RecursionError
        if nodes > YAML_VALUES:
            raise yaml.YAMLError(f"more than {YAML_VALUES} values; a JSON file may hold more")
    root = yaml.compose(text, yaml.SafeLoader)
    return {} if root is None else _Values().value_of(root, 0)


class _Values:
    """Plain values of the nodes of a document, as many as are allowed; an alias counts as a copy."""

    def __init__(self) -> None:
        self.values = 0
        self._scalars = yaml.SafeLoader("")

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
            return self._scalars.construct_object(node, deep=True)
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
