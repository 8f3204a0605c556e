"""Processors and generators that cannot be sent to data workers."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from typing import Any

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.processor.params import DataProcessorParams
from tfaip.params.tree.nodes import nodes_of
from tfaip.scenario.checking.finding import Finding, Kind, finding_at

_MOVE = "define it at the top of a module, which the workers can import"


def find_unpicklable(params: Any) -> list[Finding]:
    """Return the params of generators and processors that a worker process cannot be given.

    Args:
        params: the trainer params.
    """
    findings: list[Finding] = []
    for node in nodes_of(params):
        if isinstance(node, DataProcessorParams | DataGeneratorParams):
            findings += _problems(node)
    return list(dict.fromkeys(findings))


def _problems(node: Any) -> Iterator[Finding]:
    cls = type(node)
    if not _is_importable(cls):
        yield finding_at(
            cls, Kind.UNPICKLABLE, f"{cls.__qualname__} is not found in {cls.__module__} by its name", _MOVE
        )
        return
    for name, value in vars(node).items():
        try:
            pickle.dumps(value)
        except Exception as error:  # any class may refuse it, in any way
            yield finding_at(
                cls,
                Kind.UNPICKLABLE,
                f"{cls.__name__}.{name} cannot be sent to a data worker ({type(error).__name__}: {error})",
                "keep plain values in params and build the rest in the constructor of the processor",
            )


def _is_importable(cls: type) -> bool:
    found: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is cls
