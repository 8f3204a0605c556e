"""Evaluation of exported models by a command: flags and results of `tfaip-lav` and `tfaip-multi-lav`."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tfaip.components.userlogs import user_logs
from tfaip.errors import TfaipError
from tfaip.export.modelloading import precision_of
from tfaip.lav.params import LAVParams
from tfaip.params.commandline.help import described
from tfaip.scripts.common.dataflags import parse_flags
from tfaip.scripts.common.exportedmodels import Models
from tfaip.scripts.common.parser import CommandParser
from tfaip.util.logging import logger

log = logger(__name__)


def parse(prog: str, models: Models, print_samples: bool = True) -> tuple[SimpleNamespace, list[Any]]:
    """Return the flags of an evaluation and its generators; imports the backend at the end.

    Args:
        prog: how the command was called, for `--help`.
        models: to evaluate.
        print_samples: print the first samples unless a flag says otherwise.
    """
    defaults: list[Any] = []
    if models.training_data is not None:
        defaults = list(models.training_data.gen.lav_gen())
    lav = LAVParams(model_path=str(models.paths[0]), print_samples=print_samples)
    models.use_training_pipeline(lav)
    with suppress(TfaipError):  # models of tfaip 1.2 have no manifest; damage is reported when the weights are read
        lav.device.precision = precision_of(models.paths[0])
    description = f"Load and validate {described(models.scenario)}"
    files = ["out", "dump", "tensorboard"]
    parser = CommandParser(prog, description, models.all_trusted(), files, models.scenario)
    parser.add_option("--run_eagerly", help="Do not compile the model, to debug it in Python")
    return parse_flags(parser, models.flags, "lav", lav, defaults)


def _log_what_is_left_out(pipeline: Any) -> None:
    """Log which samples are not evaluated, by limits of the validation or of the user."""
    if pipeline.limit > 0:
        log.info("pipeline.limit %d: the first samples are evaluated, the others are left out", pipeline.limit)
    if pipeline.max_element_length is not None:
        log.info("pipeline.max_element_length %d: longer samples are left out", pipeline.max_element_length)


def run_lav(lav: Any, args: SimpleNamespace, models: Models, generators: list[Any]) -> dict[str, Any]:
    """Return the results of each generator (MultiLAV: of each model and their vote) by name.

    Args:
        lav: the `LAV` or `MultiLAV`.
        args: the flags.
        models: to evaluate.
        generators: params of the data.
    """
    from tfaip.lav import callbacks
    from tfaip.predict.samplefile import SampleWriter

    _log_what_is_left_out(args.lav.pipeline)
    with ExitStack() as stack:
        stack.enter_context(user_logs(models.scenario, models.params, *generators))
        called: list[callbacks.LAVCallback] = []
        if args.dump is not None:
            writer = stack.enter_context(SampleWriter(Path(args.dump), args.dump_inputs))
            called.append(callbacks.DumpCallback(writer))
        if args.tensorboard is not None:
            called.append(callbacks.TensorBoardCallback(Path(args.tensorboard)))
        results = list(lav.run(generators, called, args.run_eagerly))
    return {f"lav_l{number}": one for number, one in enumerate(results)}
