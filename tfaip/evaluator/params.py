"""Params of an evaluator; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass

from tfaip.params import ParamsBase, pai_dataclass


@pai_dataclass
@dataclass
class EvaluatorParams(ParamsBase):
    """Params of an evaluator; it has no options by default."""
