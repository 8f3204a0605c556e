"""`tfaip-predict --export_dir DIR [DIR ...] [flags]`: apply exported models to data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.scripts.common import command
from tfaip.util.logging import logger

if TYPE_CHECKING:
    from tfaip.scripts.common.models import Models

PROG = "tfaip-predict"
FLAG = "--export_dir"
USAGE = f"""usage: {PROG} {FLAG} DIR [DIR ...] [flags]

Apply an exported model (best/ or export/ of a run; of a run itself its best) to data, by default to
the validation data of its training. Several models of one scenario vote. --dump FILE stores the
predicted samples.

  --trust PKG [PKG ...]  {command.TRUST}

{PROG} {FLAG} DIR --help shows the flags of a model (--help all: every one)."""


@command.entry_point(USAGE, "model", FLAG)
def main(directories: list[str], flags: list[str]) -> None:
    """Apply models to data."""
    from tfaip.components.userlogs import user_logs
    from tfaip.params.settings import flags_of
    from tfaip.scripts.common.models import open_models

    models = open_models(directories, flags)
    args, generator = _parse(models)
    if args.dump is None:
        logger(__name__).info("the predictions are not stored: write them with --dump FILE")
    with user_logs(models.scenario, models.params, generator), flags_of(generator, "data"):
        if len(models.paths) == 1:
            predictor = models.scenario.create_predictor(models.paths[0], args.predict, models.trusted)
        else:
            predictor = models.scenario.create_multi_predictor(models.paths, args.predict, models.trusted)
        samples = predictor.predict(generator)
        if args.dump is None:
            count = sum(1 for _ in samples)
            logger(__name__).info("%d samples were predicted, none was stored", count)
            return
        from tfaip.predict.samplefile import SampleWriter  # imports NumPy, which `--help` does not need

        with SampleWriter(Path(args.dump), args.dump_inputs) as writer:
            for sample in samples:
                writer.write(sample)


def _parse(models: Models) -> tuple[Any, Any]:
    """Return the flags and the generator that they mean."""
    from dataclasses import replace

    from tfaip.params.help import described
    from tfaip.predict.params import PredictorParams
    from tfaip.scripts.common.models import parse_flags
    from tfaip.scripts.common.parser import CommandParser

    predict = PredictorParams()
    models.use_training_pipeline(predict)
    # A training may validate on a part of its data; of a prediction samples would be missing without being asked for.
    predict.pipeline = replace(
        predict.pipeline, batch_drop_remainder=False, limit=-1, max_element_length=None, on_error="raise"
    )
    default = None
    if hasattr(models.scenario, "predict_generator_params_cls"):
        default = models.scenario.predict_generator_params_cls()()
    elif models.training_data is not None:
        default = models.training_data.gen.val_gen()
    prog = f"{PROG} {FLAG} {' '.join(map(str, models.paths))}"
    parser = CommandParser(prog, f"Apply {described(models.scenario)}", models.all_trusted(), ["dump"], models.scenario)
    defaults = [] if default is None else [default]
    args, generators = parse_flags(parser, models, "predict", predict, defaults)
    return args, generators[0]


if __name__ == "__main__":
    sys.exit(main())
