"""`tfaip-predict --export_dir DIR [DIR ...] [flags]`: apply exported models to data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.scripts.common import command

if TYPE_CHECKING:
    from types import SimpleNamespace

    from tfaip.scripts.common.exportedmodels import Models

PROG = "tfaip-predict"
FLAG = "--export_dir"
USAGE = f"""usage: {PROG} {FLAG} DIR [DIR ...] [flags]

Apply an exported model (best/ or export/ of a run; of a run itself its best) to data, by default to
the validation data of its training. Several models of one scenario vote. --dump FILE stores the
predicted samples.

  --trust PKG [PKG ...]  {command.TRUST}

{PROG} {FLAG} DIR --help shows the flags (--help all: every one)."""


@command.entry_point(USAGE, "model", FLAG)
def main(directories: list[str], flags: list[str]) -> None:
    """Apply models to data."""
    from tfaip.components.userlogs import user_logs
    from tfaip.scripts.common.exportedmodels import open_models
    from tfaip.util.logging import logger

    models = open_models(directories, flags)
    args, generator = _parse(models)
    if args.dump is None:
        logger(__name__).info("the predictions are not stored: write them with --dump FILE")
    with user_logs(models.scenario, models.params, generator):
        samples = _create_predictor(models, args.predict).predict(generator)
        if args.dump is None:
            count = sum(1 for _ in samples)
            logger(__name__).info("%d samples were predicted, none was stored", count)
            return
        from tfaip.predict.samplefile import SampleWriter  # imports NumPy, which `--help` does not need

        with SampleWriter(Path(args.dump), args.dump_inputs) as writer:
            for sample in samples:
                writer.write(sample)


def _parse(models: Models) -> tuple[SimpleNamespace, Any]:
    from dataclasses import replace

    from tfaip.params.commandline.help import described
    from tfaip.predict.params import PredictorParams
    from tfaip.scripts.common.dataflags import parse_flags
    from tfaip.scripts.common.parser import CommandParser

    predict = PredictorParams()
    models.use_training_pipeline(predict)
    # A training may validate on a part of its data; of a prediction samples would be missing without a word.
    predict.pipeline = replace(predict.pipeline, batch_drop_remainder=False, limit=-1, max_element_length=None)
    prog = f"{PROG} {FLAG} {' '.join(map(str, models.paths))}"
    parser = CommandParser(prog, f"Apply {described(models.scenario)}", models.all_trusted(), ["dump"], models.scenario)
    args, generators = parse_flags(parser, models.flags, "predict", predict, _default_data(models))
    return args, generators[0]


def _default_data(models: Models) -> list[Any]:
    if hasattr(models.scenario, "predict_generator_params_cls"):
        return [models.scenario.predict_generator_params_cls()()]
    if models.training_data is not None:
        validation = models.training_data.gen.val_gen()
        if validation is not None:
            return [validation]
    return []


def _create_predictor(models: Models, params: Any) -> Any:
    if len(models.paths) == 1:
        return models.scenario.create_predictor(models.paths[0], params, models.trusted)
    return models.scenario.create_multi_predictor(models.paths, params, models.trusted)


if __name__ == "__main__":
    sys.exit(main())
