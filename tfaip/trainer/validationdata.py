"""Check of the validation data: none are given, or they must hold samples."""

from __future__ import annotations

from typing import Any

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.errors import UsageError
from tfaip.params.tree import Change, diff, is_hidden
from tfaip.trainer.params import TrainerPipelineParamsBase
from tfaip.util.text import shorten, shorten_text

# Characters of a message for options and their values.
OPTIONS_LIMIT = 120


def has_validation_data(gen: TrainerPipelineParamsBase[Any, Any], pipeline: DataPipeline) -> bool:
    """Return True if there is something to validate on.

    Validation data are not given if `gen` has a field `val` whose options are all the defaults of their class, and
    these give no sample. (If `val_gen` returns None there is not even a pipeline.)

    Args:
        gen: where the data come from.
        pipeline: of the validation data.

    Raises:
        UsageError: data are given and have no sample, or cannot be read.
    """
    generator = pipeline.generator_params
    # Params that `val_gen` has made itself were not given by an option, and yet on purpose.
    is_option = generator is getattr(gen, "val", None)
    options = chosen_options(generator) if is_option else []
    try:
        size = len(pipeline.generator)
    except UsageError:
        if is_option and not options:
            return False  # e.g. no file is named
        raise
    except (TypeError, NotImplementedError):
        return True  # of unknown length
    if size > 0:
        return True
    if is_option and not options:
        return False
    given = ", ".join(f"--val.{option.path} {shorten(option.new)}" for option in options)
    source = shorten_text(given, OPTIONS_LIMIT) or f"val_gen returns {type(generator).__name__}"
    raise UsageError(
        f"the validation data have no sample ({source}): correct that, give no validation data at all, or switch the "
        "validation off with --trainer.val_every_n 0"
    )


def chosen_options(generator: DataGeneratorParams) -> list[Change]:
    """Return the options of a generator that are not the default of its class."""
    try:
        default = type(generator)()
    except TypeError:  # a field without a default was given
        return [Change("", None, generator)]
    changes = diff(default, generator)
    return [change for change in changes if not is_hidden(generator, change.path) and not isinstance(change.new, type)]
