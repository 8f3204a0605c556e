"""Params of a prediction and of LAV; they need no backend."""

from typing import ClassVar

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.device import DeviceConfigParams
from tfaip.params import option
from tfaip.params.settings import RootParams


class PassParams(RootParams):
    """Options of one pass of data through exported models."""

    pipeline: DataPipelineParams = option(
        help="Pipeline of the data", factory=DataPipelineParams, fix_dc=True, mode="ssnake"
    )
    silent: bool = option(False, "Print neither samples nor progress nor speed", common=True)
    device: DeviceConfigParams = option(
        help="Device and precision; only one device is used", factory=DeviceConfigParams, fix_dc=True, mode="ssnake"
    )
    random_seed: int = option(0, "Seed of the data, for processors that draw random numbers")


class PredictorParams(PassParams):
    """Options of a prediction, and the parts of a predicted sample besides its inputs and outputs."""

    flag_root: ClassVar[str] = "predict"

    progress_bar: bool = option(True, "Show a progress bar on a terminal or in a notebook")
    run_eagerly: bool = option(False, "Run the model eagerly, to debug it in Python")
    include_targets: bool = option(
        False, "Read and keep the targets of the samples; the data must have them", common=True
    )
    include_meta: bool = option(True, "Keep the meta data of the samples")


class LAVParams(PassParams):
    """Options of loading and validating an exported model."""

    flag_root: ClassVar[str] = "lav"

    print_samples: bool = option(True, "Print the first samples (print_eval_limit of the scenario params)", common=True)
    model_path: str | None = option(None, "Directory of the exported model", mode="ignore")
