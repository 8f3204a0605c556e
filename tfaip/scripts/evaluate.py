"""`tfaip-evaluate --prediction FILE --scenario SCENARIO [flags]`: the evaluator of a scenario on predicted samples."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import result_of
from tfaip.params.trust import top_package
from tfaip.scripts.dryrun import add_dry_run, listed, print_plan
from tfaip.scripts.models import exported_model
from tfaip.scripts.results import check_files, print_results, write_results
from tfaip.scripts.roof import run_command
from tfaip.scripts.stored import take_trusted, take_words
from tfaip.util.text import shorten, shorten_text
from tfaip.util.userlogs import user_logs

PROG = "tfaip-evaluate"
USAGE = f"""usage: {PROG} --prediction FILE --scenario SCENARIO [flags]

Run the evaluator of a scenario on samples that tfaip-predict or tfaip-lav wrote (--dump), with their targets.

SCENARIO is an exported model (best/ or export/ of a run) or a run, whose evaluator params are used, or a scenario as
in tfaip-train.

  --dry_run              check everything, say what would be done, write nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own

{PROG} --scenario SCENARIO --help shows all flags."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    names, flags = take_words("--scenario", "an exported model or a scenario", argv)
    if not names and flags and flags[0] in ("-h", "--help"):
        print(USAGE)
        return
    if len(names) != 1:
        raise UsageError(f"which scenario? expected: {PROG} --prediction FILE --scenario SCENARIO; see {PROG} --help")
    trusted, flags = take_trusted(flags)
    scenario, params = _scenario(names[0], trusted)
    args = _parse(f"{PROG} --scenario {names[0]}", params, flags, [top_package(scenario.__module__), *trusted])
    if args.dry_run:
        _plan(scenario, args)
        return
    params.evaluator = args.evaluator
    with user_logs(scenario, params), scenario(params).new_evaluator() as evaluator:
        for number, sample in enumerate(_samples(args.prediction)):
            try:
                evaluator.update_state(sample)
            except (AttributeError, LookupError, TypeError) as error:
                raise UsageError(_what_is_missing(args.prediction, number, sample, evaluator, error)) from error
        results = result_of(evaluator)
    if not results:
        raise UsageError(f"{type(evaluator).__name__} of {scenario.__name__} gives no results: see evaluator_cls")
    print_results({"value": results})
    if args.out is not None:
        write_results(args.out, {"prediction": args.prediction, "results": results})


def _plan(scenario: Any, args: Any) -> None:
    """Read the first sample, and print what would be evaluated."""
    if next(_samples(args.prediction), None) is None:
        raise UsageError(f"{shorten(args.prediction)} holds no sample: predict again")
    evaluator = scenario.evaluator_cls().__name__
    print_plan(f"run {evaluator} of {scenario.__name__} on the samples in {args.prediction}", listed(args.out))


def _scenario(name: str, trusted: Sequence[str]) -> tuple[Any, Any]:
    from tfaip.scenario.exported import load_exported_params
    from tfaip.scenario.loading import load_scenario
    from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE
    from tfaip.util.backend import select_backend

    select_backend()  # before the code of the scenario, which may import Keras
    model = exported_model(Path(name))
    if (model / SCENARIO_PARAMS_FILE).is_file():
        return load_exported_params(model, trusted)
    scenario = load_scenario(name, first=False)
    return scenario, scenario.default_params()


def _parse(prog: str, params: Any, flags: Sequence[str], trusted: Sequence[str]) -> Any:
    from tfaip.params.cli import ParamsParser

    parser = ParamsParser(prog, "Evaluate predicted samples.", trusted)
    parser.add_option("--prediction", type=str | None, help="File of predicted samples (required)")
    parser.add_option("--out", type=str | None, help="Write the results as JSON into this file")
    add_dry_run(parser)
    parser.add_params("evaluator", type(params.evaluator), default=params.evaluator, metadata={"fix_dc": True})
    args = parser.parse(flags)
    if args.prediction is None:
        raise UsageError("missing required flag: --prediction")
    check_files(out=args.out)
    return args


def _what_is_missing(prediction: str, number: int, sample: Any, evaluator: Any, error: Exception) -> str:
    parts = {"outputs": sample.outputs, "targets": sample.targets}
    held = ", ".join(f"{name}: {shorten(sorted(v) if isinstance(v, dict) else v, 60)}" for name, v in parts.items())
    return (
        f"sample {number} of {shorten_text(prediction)} does not have what {type(evaluator).__name__} reads "
        f"({type(error).__name__}: {shorten_text(str(error), 60)}); it has {held}"
    )


def _samples(prediction: str) -> Iterator[Any]:
    from tfaip.predict.samplefile import read_samples

    for number, sample in enumerate(read_samples(Path(prediction))):
        for part in ("outputs", "targets"):
            if getattr(sample, part) is None:
                raise UsageError(
                    f"sample {number} of {prediction} has no {part}, which an evaluator compares: predict with "
                    "--predict.include_targets True"
                )
        yield sample


if __name__ == "__main__":
    sys.exit(main())
