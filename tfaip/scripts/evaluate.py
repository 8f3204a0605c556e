"""`tfaip-evaluate --prediction FILE --scenario SCENARIO [flags]`: evaluate predicted samples."""

import sys
from pathlib import Path

from tfaip.backend.environment import select_backend
from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.util.classes import construct
from tfaip.util.text import shorten_text

PROG = "tfaip-evaluate"
USAGE = f"""usage: {PROG} --prediction FILE --scenario SCENARIO [flags]

Run the evaluator of a scenario on samples that tfaip-predict or tfaip-lav wrote (--dump), with
their targets.

SCENARIO is an exported model (best/ or export/ of a run) or a run, whose evaluator params are used,
or a scenario as in tfaip-train.

  --trust PKG [PKG ...]  {command.TRUST}

{PROG} --scenario SCENARIO --help shows the flags (--help all: every one)."""


@command.entry_point(USAGE, "scenario", "--scenario")
def main(names: list[str], flags: list[str]) -> None:
    """Evaluate predicted samples."""
    from tfaip.components.loading import load_scenario
    from tfaip.components.modelfiles import SCENARIO_PARAMS_FILE
    from tfaip.components.userlogs import user_logs
    from tfaip.evaluator.evaluator import result_of
    from tfaip.export.modelloading import load_exported_params
    from tfaip.scripts.common.models import exported_model
    from tfaip.scripts.common.parser import CommandParser

    if len(names) > 1:
        raise UsageError(f"--scenario takes one scenario, got {shorten_text(' '.join(names))}")
    trusted, flags = command.take_trusted(flags)
    select_backend()  # before the code of the scenario, which may import Keras
    model = exported_model(Path(names[0]))
    if (model / SCENARIO_PARAMS_FILE).is_file():
        scenario, params = load_exported_params(model, trusted)
    else:
        scenario = load_scenario(names[0], first=False)
        params = scenario.default_params()
    packages = [*scenario.declared_packages(), *trusted]
    parser = CommandParser(f"{PROG} --scenario {names[0]}", "Evaluate predicted samples.", packages, ["out"], scenario)
    parser.add_option("--prediction", type=str | None, help="File of predicted samples (required)")
    parser.add_params("evaluator", type(params.evaluator), default=params.evaluator, metadata={"fix_dc": True})
    args = parser.parse(flags)
    if args.prediction is None:
        raise UsageError("missing required flag: --prediction")
    params.evaluator = args.evaluator
    from tfaip.predict.samplefile import read_samples  # imports NumPy, which `--help` does not need

    with user_logs(scenario, params), construct(scenario, params).new_evaluator() as evaluator:
        for number, sample in enumerate(read_samples(Path(args.prediction))):
            for part in ("outputs", "targets"):
                if getattr(sample, part) is None:
                    raise UsageError(
                        f"sample {number} of {args.prediction} has no {part}, which an evaluator compares: predict "
                        "with --predict.include_targets True"
                    )
            evaluator.update_state(sample)
        results = result_of(evaluator)
    if not results:
        raise UsageError(f"{type(evaluator).__name__} of {scenario.__name__} gives no results: see evaluator_cls")
    command.print_results({"value": results})
    command.write_results(args.out, {"prediction": args.prediction, "results": results})


if __name__ == "__main__":
    sys.exit(main())
