"""`--dry_run`: check what can be checked in a few seconds, say what would be done, write nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    from tfaip.scripts.models import Models

_LINE_LIMIT = 500


def add_dry_run(parser: Any) -> None:
    """Add the flag to a `ParamsParser`."""
    parser.add_option("--dry_run", help="Check everything, say what would be done and written, write nothing, exit")


def take_dry_run(flags: Sequence[str]) -> tuple[bool, list[str]]:
    """Split the flag off the command line of a command that has no parser."""
    return "--dry_run" in flags, [flag for flag in flags if flag != "--dry_run"]


def print_plan(action: str, results: str) -> None:
    """Print the two lines of a dry run.

    Args:
        action: what would be done, as in `evaluate the model ...`.
        results: where its results would be.
    """
    print(shorten_text(f"dry run: would {action}", _LINE_LIMIT))
    print(shorten_text(f"would write {results}; nothing was written", _LINE_LIMIT))


def listed(*targets: str | None) -> str:
    """Return the files that would be written; those that are None were not asked for."""
    return ", ".join(target for target in targets if target is not None) or "no file"


def plan_for_models(
    models: Models, verb: str, data: Iterable[tuple[Any, Any, Any]], targets: Sequence[str | None]
) -> None:
    """Load models, read the first batch of their data, and print what would be done with them.

    Args:
        models: what the command line names; the backend is imported.
        verb: what is done with them, with the preposition of the data as in `apply {} to`.
        data: params of a pipeline, params of a generator, and the mode, of each kind of data.
        targets: files that the flags ask for.

    Raises:
        TfaipError: a model is damaged, or the data cannot be read.
    """
    from tfaip.predict.multimodelpredictor import load_models

    loaded = load_models(models.paths, models.scenario, models.trusted)
    texts = [read_data(loaded[0], setup, generator, mode) for setup, generator, mode in data]
    names = f"{' and '.join(map(str, models.paths))} ({models.scenario.__name__})"
    print_plan(f"{verb.format(names)} {', '.join(texts)}", listed(*targets))


def read_data(scenario: Any, setup: Any, generator: Any, mode: Any) -> str:
    """Read the first batch of one pass over data; returns how many samples there are.

    Args:
        scenario: whose data they are.
        setup: params of the pipeline.
        generator: params of the generator.
        mode: of the pipeline.

    Raises:
        UsageError: there is no sample.
    """
    name = type(generator).__name__
    pipeline = scenario.data.create_pipeline(replace(setup, num_processes=0), generator).to_mode(mode)
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        if next(batches, None) is None:
            raise UsageError(f"{name} gives no sample: change --data.*")
    try:
        return f"{pipeline.epoch_size()} samples of {name}"
    except UsageError:
        return f"samples of {name}, whose number is not known"
