"""What options and the toolkit itself cost: pairs of trainings that differ in one thing, epoch by epoch in turn.

    python benchmarks/overhead.py [--pairs 7] [--only ema]
    KERAS_BACKEND=jax python benchmarks/overhead.py

- ema: averages of the weights on / off, on the tiny MLP and on a convolutional network with steps of about 10 ms.
- watching: TensorBoard, progress bar, history and log on / off.
- schedules: four scheduled values / the same values without schedules; noise: noise on all weights / none.
- toolkit: the toolkit / bare `keras.Model.fit`, on the convolutional network.
"""

import argparse
import contextlib
import copy
import logging
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from images import BACKEND, BATCH_SIZE, bare, toolkit
from pairs import Turn, race, report

from tfaip.trainer.optimizer import AdamOptimizer
from tfaip.trainer.params import ProgressBarMode, WeightNoiseParams
from tfaip.trainer.scheduledvalues import ScheduleParams

BATCHES = {"mlp": 3750, "conv": 400}
QUIET = {"write_checkpoints": False, "export_best": False, "export_final": False}
Pair = tuple[Callable[[Turn], None], Callable[[Turn], None]]


def ema(network: str, samples: int, epochs: int, directory: Path) -> Pair:
    """Without files, whose time would hide the difference."""
    on, off = (toolkit(network, samples, epochs, None, calc_ema=rate) for rate in (-1.0, 0.0))
    return on, off


def watching(network: str, samples: int, epochs: int, directory: Path) -> Pair:
    """All that shows a training, against a training that shows nothing."""
    on = toolkit(network, samples, epochs, directory / "on", progress_bar_mode=ProgressBarMode.BAR, **QUIET)
    return on, toolkit(network, samples, epochs, None)


def against_bare(network: str, samples: int, epochs: int, directory: Path) -> Pair:
    """With log, checkpoints, history and TensorBoard; without exports, which cost the same in an epoch of any size."""
    return toolkit(network, samples, epochs, directory / "on", export_best=False), bare(network, samples, epochs)


def schedules(network: str, samples: int, epochs: int, directory: Path) -> Pair:
    """Four values that change in every update, against the same numbers fixed."""
    on = [
        ScheduleParams(target, {0: first, epochs: 0.9 * first})
        for target, first in (
            ("optimizer.clip_value", 0.5),
            ("optimizer.clip_global_norm", 5.0),
            ("optimizer.weight_decay", 0.01),
            ("loss_weights.loss", 1.0),
        )
    ]
    fixed = {
        "optimizer": AdamOptimizer(clip_value=0.5, clip_global_norm=5.0, weight_decay=0.01),
        "loss_weights": {"loss": 1.0},
    }
    with_schedules = toolkit(network, samples, epochs, None, schedules=on, **copy.deepcopy(fixed))
    return with_schedules, toolkit(network, samples, epochs, None, **fixed)


def noise(network: str, samples: int, epochs: int, directory: Path) -> Pair:
    """Noise on all weights in the forward pass."""
    on = toolkit(network, samples, epochs, None, weight_noise=WeightNoiseParams(0.01))
    return on, toolkit(network, samples, epochs, None)


MEASUREMENTS = {
    "ema": (ema, ("mlp", "conv")),
    "watching": (watching, ("mlp", "conv")),
    "schedules": (schedules, ("mlp", "conv")),
    "noise": (noise, ("mlp", "conv")),
    "toolkit": (against_bare, ("conv",)),
}


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="epochs of each that are compared")
    parser.add_argument("--only", choices=MEASUREMENTS, help="one of the measurements")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the number of images")
    args = parser.parse_args()
    logging.getLogger("tfaip").setLevel(logging.WARNING)
    for name, (make, networks) in MEASUREMENTS.items():
        for network in networks if args.only in (None, name) else ():
            samples = int(BATCHES[network] * args.scale) * BATCH_SIZE
            with tempfile.TemporaryDirectory() as directory:
                pair = make(network, samples, args.pairs + 2, Path(directory))
                with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                    seconds, against = race(list(pair))
            report(f"{BACKEND}, {name}, {network}", seconds, against)


if __name__ == "__main__":
    main()
