"""Params of LAV; needs no backend."""

from __future__ import annotations

from typing import ClassVar

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.device import DeviceConfigParams
from tfaip.params import option
from tfaip.params.settings import RootParams


class LAVParams(RootParams):
    """Options of loading and validating an exported model."""

    flag_root: ClassVar[str] = "lav"

    pipeline: DataPipelineParams = option(
        help="Pipeline of the data", factory=DataPipelineParams, fix_dc=True, mode="ssnake"
    )
    print_samples: bool = option(True, "Print the first samples (print_eval_limit of the scenario params)", common=True)
    silent: bool = option(False, "Print neither samples nor progress nor speed", common=True)
    device: DeviceConfigParams = option(
        help="Device and precision; only one device is used",
        factory=DeviceConfigParams,
        fix_dc=True,
        mode="ssnake",
    )
    random_seed: int = option(0, "Seed of the data, for processors that draw random numbers")
    model_path: str | None = option(None, "Directory of the exported model", mode="ignore")
