"""Config files: flags and their values in YAML or JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.sources import Source
from tfaip.util.reading import MIB, parse_json, read_text
from tfaip.util.text import shorten_text

# The parser of YAML is written in Python, much slower than that of JSON, which may be larger.
YAML_BYTES = 4 * MIB


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
    # Not before: YAML takes 20 ms to import, and most commands are given no file.
    import yaml

    from tfaip.params.commandline.boundedyaml import read_document

    try:
        document = read_document(text)
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
        raise UsageError(f"{name}: expected flags and values, got {type(document).__name__}")
    return document
