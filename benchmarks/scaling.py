"""Samples per second on 1, 2, ... devices, as ratios to one device, each in a process of its own.

    python benchmarks/scaling.py [--devices 1 2] [--gpus] [--network conv] [--batch_size 64] [--rounds 3]

Without --gpus the devices are logical ones of the same CPU: they share its cores, so that the ratio to one device shows
what splitting costs, not what more machines bring. The batch is that of all devices together.
"""

import argparse
import json
import os
import statistics
import time
from typing import Any

from pairs import run_apart

BATCHES = 100


def samples_per_second(args: argparse.Namespace, devices: int) -> float:
    """Measured in a process of its own, since a process cannot change its devices."""
    env = dict(os.environ)
    if not args.gpus and devices > 1:
        env["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
    flags = ["--one", devices, "--network", args.network, "--batch_size", args.batch_size]
    rate: float = run_apart(*flags, *(["--gpus"] if args.gpus else []), env=env)
    return rate


def train(args: argparse.Namespace) -> None:
    """Train three epochs on `args.one` devices; prints the samples per second of the last two."""
    from tfaip.backend.environment import select_backend
    from tfaip.device import DeviceConfigParams
    from tfaip.device.devices import prepare_devices

    device = DeviceConfigParams(gpus=list(range(args.one)) if args.gpus else None)
    if select_backend() == "tensorflow" and not args.gpus and args.one > 1:
        import tensorflow as tf

        logical = [tf.config.LogicalDeviceConfiguration()] * args.one
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], logical)
    prepare_devices(device)
    from images import toolkit

    begins: list[float] = []
    fields: dict[str, Any] = {"device": device, "batch_size": args.batch_size}
    toolkit(args.network, BATCHES * args.batch_size, 3, None, **fields)(lambda: begins.append(time.perf_counter()))
    seconds = time.perf_counter() - begins[1]
    print(json.dumps(2 * BATCHES * args.batch_size / seconds))


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--gpus", action="store_true", help="on the first GPUs of the machine")
    parser.add_argument("--network", default="conv")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3, help="how often each number of devices is measured, in turn")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one is not None:
        train(args)
        return
    rounds = [[samples_per_second(args, devices) for devices in args.devices] for _ in range(args.rounds)]
    for i, devices in enumerate(args.devices):
        rates, ratios = [row[i] for row in rounds], [row[i] / row[0] for row in rounds]
        print(f"{devices} devices: {statistics.median(rates):.0f} samples/s, ratio {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
