"""Step time of large networks, toolkit / bare `keras.Model.fit`, epoch by epoch in turn; meant for a GPU with JAX.

    KERAS_BACKEND=jax python benchmarks/gpu.py [--gpu 0] [--networks resnet50 transformer] [--precision mixed_bfloat16]

TensorFlow need not be installed. Without a GPU it runs on the CPU, which only shows that it runs. Nothing is written
unless `--checkpoints` is given: what a checkpoint takes depends on the weights, not on the steps of an epoch.
"""

import argparse
import contextlib
import logging
import os
import tempfile
from pathlib import Path

from pairs import race, report

from tfaip.device import DeviceConfigParams, Precision

BATCH_SIZES = {"resnet50": 64, "transformer": 128, "mlp": 256}
EPOCHS_AROUND = 2  # the first compiles, the last is not measured


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=int, help="which GPU; default: none")
    parser.add_argument("--networks", nargs="+", choices=BATCH_SIZES, default=["resnet50", "transformer"])
    parser.add_argument("--batches", type=int, default=50, help="batches of an epoch")
    parser.add_argument("--batch_size", type=int, help="default: as in BATCH_SIZES")
    parser.add_argument("--precision", choices=[p.value for p in Precision], default=Precision.FLOAT32.value)
    parser.add_argument("--pairs", type=int, default=7, help="epochs of each that are compared")
    parser.add_argument("--checkpoints", action="store_true", help="write one after every epoch")
    args = parser.parse_args()

    from tfaip.device.devices import open_devices

    device = DeviceConfigParams(gpus=None if args.gpu is None else [args.gpu], precision=Precision(args.precision))
    devices = open_devices(device)
    from images import BACKEND, bare, toolkit

    logging.getLogger("tfaip").setLevel(logging.WARNING)
    print(f"{BACKEND} on {devices.describe()}")
    for network in args.networks:
        batch_size = args.batch_size or BATCH_SIZES[network]
        samples, epochs = args.batches * batch_size, args.pairs + EPOCHS_AROUND
        with tempfile.TemporaryDirectory() as directory:
            output_dir = Path(directory) if args.checkpoints else None
            ours = toolkit(network, samples, epochs, output_dir, batch_size, export_best=False, device=device)
            with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
                seconds, against = race([ours, bare(network, samples, epochs, batch_size)])
        report(f"{network}, {args.batches} steps with {batch_size} samples", seconds, against)


if __name__ == "__main__":
    main()
