"""Params of a prediction; needs no backend."""

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
class PredictorParams(RootParams):
    """Options of a prediction, and the parts of a predicted sample besides its inputs and outputs."""

    flag_root: ClassVar[str] = "predict"

    pipeline: DataPipelineParams = field(
        default_factory=DataPipelineParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Pipeline of the data"),
    )
    silent: bool = field(default=False, metadata=pai_meta(help="Print neither progress nor speed") | COMMON)
    progress_bar: bool = field(default=True, metadata=pai_meta(help="Show a progress bar on a terminal"))
    run_eagerly: bool = field(default=False, metadata=pai_meta(help="Run the model eagerly, to debug it in Python"))
    include_targets: bool = field(
        default=False,
        metadata=pai_meta(help="Read and keep the targets of the samples; the data must have them") | COMMON,
    )
    include_meta: bool = field(default=True, metadata=pai_meta(help="Keep the meta data of the samples"))
    device: DeviceConfigParams = field(
        default_factory=DeviceConfigParams,
        metadata=pai_meta(fix_dc=True, mode="ssnake", help="Device and precision; only one device is used"),
    )
    random_seed: int = field(
        default=0, metadata=pai_meta(help="Seed of the data, for processors that draw random numbers")
    )
