"""Params of LAV; needs no backend."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.device import DeviceConfigParams
from tfaip.params import pai_dataclass, pai_meta
from tfaip.params.common import COMMON
from tfaip.params.root import RootParams


@pai_dataclass
@dataclass
class LAVParams(RootParams):
    """Options of loading and validating an exported model."""

    flag_root: ClassVar[str] = "lav"

    pipeline: DataPipelineParams = field(
        default_factory=DataPipelineParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Pipeline of the data"),
    )
    print_samples: bool = field(
        default=True,
        metadata=pai_meta(help="Print the first samples (print_eval_limit of the scenario params)") | COMMON,
    )
    silent: bool = field(default=False, metadata=pai_meta(help="Print neither samples nor progress nor speed") | COMMON)
    device: DeviceConfigParams = field(
        default_factory=DeviceConfigParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Device and precision; only one device is used"),
    )
    random_seed: int = field(
        default=0, metadata=pai_meta(help="Seed of the data, for processors that draw random numbers")
    )
    model_path: str | None = field(
        default=None, metadata=pai_meta(mode="ignore", help="Directory of the exported model")
    )
