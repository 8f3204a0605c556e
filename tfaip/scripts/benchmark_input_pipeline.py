"""`tfaip-benchmark-input-pipeline SCENARIO [flags]`: how fast the training data come, and where the time goes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tfaip.params.trust import top_package
from tfaip.scripts.dryrun import add_dry_run, listed, print_plan, read_data
from tfaip.scripts.roof import asks_for_usage, run_command

PROG = "tfaip-benchmark-input-pipeline"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Read the training data of a scenario as fast as they come, without a training, and show where the time goes. Takes the
flags of tfaip-train (--trainer.output_dir is not needed: nothing is written), and:

  --time_limit SECONDS   stop after this time; else Ctrl-C stops
  --dry_run              check everything, read one batch, measure nothing
  --trust PKG [PKG ...]  packages that a config file may name classes of, besides tfaip and the scenario's own

{PROG} SCENARIO --help shows all flags."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    if asks_for_usage(argv, USAGE, f"which scenario? expected: {PROG} SCENARIO [flags]; see {PROG} --help"):
        return
    from tfaip.errors import UsageError
    from tfaip.params.cli import ParamsParser
    from tfaip.params.help import described
    from tfaip.scenario.loading import load_scenario
    from tfaip.util.backend import select_backend

    select_backend()  # before the code of the scenario, which may import Keras
    scenario: Any = load_scenario(argv[0])
    default = scenario.default_trainer_params()
    default.output_dir = default.output_dir or "unused"  # required for a training; nothing is written here
    description, own = f"Measure the input pipeline of {described(scenario)}", top_package(scenario.__module__)
    parser = ParamsParser(f"{PROG} {argv[0]}", description, [own])
    parser.add_option("--time_limit", type=float | None, help="Stop after so many seconds (None: Ctrl-C stops)")
    add_dry_run(parser)
    parser.add_params("trainer", scenario.trainer_params_cls(), default=default)
    args = parser.parse(argv[1:])
    if args.time_limit is not None and not args.time_limit > 0:
        raise UsageError(f"time_limit is {args.time_limit}, expected seconds above 0: change --time_limit")

    from tfaip.device.devices import prepare_devices

    prepare_devices(args.trainer.device)
    if args.dry_run:
        _plan(scenario(args.trainer.scenario), args)
        return
    from tfaip.trainer.inputbenchmark import benchmark_input

    benchmark_input(args.trainer, scenario(args.trainer.scenario), args.time_limit)


def _plan(scenario: Any, args: Any) -> None:
    """Read the first batch, and print what would be read."""
    from tfaip.data.pipeline.definitions import PipelineMode

    gen = args.trainer.gen
    setup = gen.setup.train
    data = read_data(scenario, setup, gen.train_gen(), PipelineMode.TRAINING)
    limit = "until Ctrl-C" if args.time_limit is None else f"for {args.time_limit:g} s"
    workers = f"{setup.num_processes} workers" if setup.num_processes else "no workers"
    print_plan(f"read {data} in batches of {setup.batch_size} with {workers}, {limit}", listed())


if __name__ == "__main__":
    sys.exit(main())
