"""Reader of YAML that is safe, and bounded in values and levels; imports the library."""

from __future__ import annotations

from typing import Any

import yaml

from tfaip.params.codec import Word
from tfaip.util.reading import MAX_DEPTH
from tfaip.util.text import shorten

# Each value takes about 3 kB while it is read.
YAML_VALUES = 50_000
_TAG = "tag:yaml.org,2002:"
# Tags of values that are read as text: the library would read 010 as 8, and 1:30 as 90.
_OF_TEXT = {"str", "int", "float", "bool", "timestamp", "value", "merge"}


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
    """Plain values of the nodes of a document, as many as are allowed; an alias counts as a copy.

    A value without quotes is a `Word`, which means what it means on a command line.
    """

    def __init__(self) -> None:
        self.values = 0

    def value_of(self, node: yaml.Node, depth: int) -> Any:
        """Return the plain value of a node at some depth."""
        self.values += 1
        if self.values > YAML_VALUES:
            raise yaml.YAMLError(f"more than {YAML_VALUES} values if all aliases are written out")
        if depth > MAX_DEPTH:  # also if a node contains itself
            raise yaml.YAMLError(f"nested too deeply (more than {MAX_DEPTH} levels)")
        tag = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.ScalarNode) and tag == "null":
            return None
        if isinstance(node, yaml.ScalarNode) and tag in _OF_TEXT:
            return Word(_joined(node)) if node.style is None else _joined(node)
        if isinstance(node, yaml.SequenceNode) and tag == "seq":
            return [self.value_of(item, depth + 1) for item in node.value]
        if not isinstance(node, yaml.MappingNode) or tag != "map":
            raise _marked(f"could not determine a value for the tag {shorten(tag)}", node)
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _marked("key is not a plain name", key)
            name = _joined(key)
            if name in found:  # YAML itself would take the last one
                raise _marked(f"key {shorten(name)} is given twice", key)
            if key.tag == f"{_TAG}merge":
                sources = item.value if isinstance(item, yaml.SequenceNode) else [item]
                for source in reversed(sources):  # the first one wins
                    if not isinstance(source, yaml.MappingNode):
                        raise _marked("expected one or several mappings to be merged", source)
                    merged |= self.value_of(source, depth + 1)
            else:
                found[name] = self.value_of(item, depth + 1)
        return merged | found


def _joined(node: yaml.ScalarNode) -> str:
    """Return the text of a scalar; JSON escapes one character beyond the first 65536 as two."""
    text = str(node.value)
    if not any("\ud800" <= character <= "\udfff" for character in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise _marked("an escaped character is not Unicode", node) from None


def _marked(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
