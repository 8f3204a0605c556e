"""`tfaip-predict --export_dir DIR [DIR ...] [flags]`: apply an exported model, or several that vote, to data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tfaip.scripts.dryrun import add_dry_run, plan_for_models
from tfaip.scripts.models import Models, chosen_data, take_models
from tfaip.scripts.results import check_files
from tfaip.scripts.roof import run_command
from tfaip.util.logging import logger
from tfaip.util.userlogs import user_logs

PROG = "tfaip-predict"
FLAG = "--export_dir"
USAGE = f"""usage: {PROG} {FLAG} DIR [DIR ...] [flags]

Apply an exported model (best/ or export/ of a run; of a run itself its best) to data, by default to what its training
validated on. Several models of one scenario vote. --dump FILE keeps what they give.

  --dry_run              check models and data, say what would be done, write nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own

{PROG} {FLAG} DIR --help shows all flags."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    models = take_models(argv, FLAG, PROG, USAGE, several=True)
    if models is None:
        return
    args, generator = _parse(models)

    from tfaip.device.devices import prepare_devices

    prepare_devices(args.predict.device, alone=True)
    if args.dry_run:
        _plan(args, models, generator)
        return
    with user_logs(models.scenario, models.params, generator):
        _predict(models, args, generator)


def _predict(models: Models, args: SimpleNamespace, generator: Any) -> None:
    samples = _predictor(models, args.predict).predict(generator)
    if args.dump is None:
        count = sum(1 for _ in samples)
        logger(__name__).info("%d samples were predicted and not kept: write them with --dump FILE", count)
        return
    from tfaip.predict.samplefile import SampleWriter

    with SampleWriter(Path(args.dump), args.dump_inputs) as writer:
        for sample in samples:
            writer.write(sample)


def _parse(models: Models) -> tuple[SimpleNamespace, Any]:
    from tfaip.data.databaseparams import DataGeneratorParams
    from tfaip.params.cli import ParamsParser
    from tfaip.params.help import described
    from tfaip.predict.params import PredictorParams

    stored = models.training_data
    defaults = [] if stored is None else [generator for generator in [stored.gen.val_gen()] if generator is not None]
    if hasattr(models.scenario, "predict_generator_params_cls"):
        defaults = [models.scenario.predict_generator_params_cls()()]
    predict = PredictorParams()
    if stored is not None:
        predict.pipeline, predict.random_seed = stored.gen.setup.val, stored.random_seed
    prog = f"{PROG} {FLAG} {' '.join(map(str, models.paths))}"
    parser = ParamsParser(prog, f"Apply {described(models.scenario)}", models.all_trusted())
    parser.add_option(
        "--dump",
        type=str | None,
        help="Write the predicted samples into this file, .jsonl (JSON lines) or .npz (NumPy)",
    )
    parser.add_option("--dump_inputs", help="Write the inputs into --dump too")
    add_dry_run(parser)
    parser.add_params("predict", PredictorParams, default=predict, metadata={"fix_dc": True})
    parser.add_params("data", DataGeneratorParams, default=defaults[0] if defaults else None)
    args = parser.parse(models.flags)
    check_files(dump=args.dump)
    return args, chosen_data(args.data, defaults)[0]


def _plan(args: SimpleNamespace, models: Models, generator: Any) -> None:
    """Check models and data, and print what would be predicted."""
    from tfaip.data.pipeline.definitions import PipelineMode

    mode = PipelineMode.EVALUATION if args.predict.include_targets else PipelineMode.PREDICTION
    plan_for_models(models, "apply {} to", [(args.predict.pipeline, generator, mode)], [args.dump])


def _predictor(models: Models, params: Any) -> Any:
    if len(models.paths) == 1:
        return models.scenario.create_predictor(models.paths[0], params, models.trusted)
    return models.scenario.create_multi_predictor(models.paths, params, models.trusted)


if __name__ == "__main__":
    sys.exit(main())
