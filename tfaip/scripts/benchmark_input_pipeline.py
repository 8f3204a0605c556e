"""`tfaip-benchmark-input-pipeline SCENARIO [flags]`: speed of the training data."""

import sys

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.scripts.train import open_scenario
from tfaip.util.classes import construct

PROG = "tfaip-benchmark-input-pipeline"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Read the training data of a scenario as fast as possible, without a training, and show where the
time is spent. Takes the flags of tfaip-train (--trainer.output_dir is not needed: nothing is
written), and:

  --time_limit SECONDS   stop after this time; without it Ctrl-C stops
  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags (--help all: every one)."""


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Measure the input pipeline of a scenario."""
    from tfaip.device.devices import prepare_devices
    from tfaip.params.help import described
    from tfaip.params.settings import flags_of
    from tfaip.scripts.common.parser import TrainingParser

    scenario = open_scenario(name)
    parser = TrainingParser(f"{PROG} {name}", f"Measure the input pipeline of {described(scenario)}", scenario)
    parser.add_option("--time_limit", type=float | None, help="Stop after so many seconds (None: Ctrl-C stops)")
    args = parser.parse(flags)
    if args.time_limit is not None and not args.time_limit > 0:
        raise UsageError(f"time_limit is {args.time_limit}, expected seconds above 0: change --time_limit")
    with flags_of(args.trainer, "trainer", "device"):
        prepare_devices(args.trainer.device)
    constructed = construct(scenario, args.trainer.scenario)
    from tfaip.trainer.tools.inputbenchmark import benchmark_input

    benchmark_input(args.trainer, constructed, args.time_limit)


if __name__ == "__main__":
    sys.exit(main())
