"""Exported models that a command line names, the data that they are applied to, and their evaluation."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tfaip.backend.environment import prefer_backend
from tfaip.components.modelfiles import SCENARIO_PARAMS_FILE, is_model
from tfaip.components.userlogs import user_logs
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.device.devices import prepare_devices
from tfaip.errors import TfaipError, UsageError
from tfaip.export.modelloading import backend_of, load_exported_params, precision_of
from tfaip.export.trainingdata import load_training_data
from tfaip.params.fields import COMMON
from tfaip.params.help import described
from tfaip.params.settings import flags_of
from tfaip.params.tree import diff, fill_shared
from tfaip.predict.params import LAVParams
from tfaip.scripts.common import command
from tfaip.scripts.common.parser import CommandParser
from tfaip.trainer.run.directory import model_of_run
from tfaip.trainer.run.names import PARAMS_FILE
from tfaip.util.logging import logger
from tfaip.util.manifest import verify_files

log = logger(__name__)


@dataclass
class Models:
    """Exported models that a user named.

    Args:
        paths: their directories.
        trusted: packages of `--trust`, whose classes stored params may name.
        flags: the rest of the command line.
        scenario: class of the scenario of the first one.
        params: its scenario params.
        training_data: the data that it was trained with; None: unknown.
    """

    paths: list[Path]
    trusted: list[str]
    flags: list[str]
    scenario: Any
    params: Any
    training_data: Any

    def all_trusted(self) -> list[str]:
        """Return the packages that files may name classes of, with those of the scenario."""
        return [*self.scenario.declared_packages(), *self.trusted]

    def use_training_pipeline(self, params: Any) -> None:
        """Use the pipeline and the seed of the training's validation, if known, for LAV or a prediction."""
        if self.training_data is not None:
            params.pipeline = self.training_data.gen.setup.val
            params.random_seed = self.training_data.random_seed


def exported_model(path: Path) -> Path:
    """Return the model directory that a user means."""
    if is_model(path):
        return path
    if (path / PARAMS_FILE).is_file():
        model = model_of_run(path)
        if model is None:
            raise UsageError(f"the run {path} holds no exported model yet (best/ or export/): train an epoch first")
        return model
    return path


def open_models(directories: Sequence[str | Path], flags: Sequence[str]) -> Models:
    """Load the params of exported models; imports no backend."""
    paths = [exported_model(Path(directory)) for directory in directories]
    # Only the backend that wrote a model gives the same values. Scenario code may import Keras.
    prefer_backend(backend_of(paths[0]))
    trusted, flags = command.take_trusted(flags)
    scenario, params = load_exported_params(paths[0], trusted)
    training_data = load_training_data(paths[0], scenario, trusted)
    if training_data is not None:
        fill_shared(training_data, params, strict=False)
    return Models(paths, trusted, flags, scenario, params, training_data)


def open_verified(path: Path, flags: Sequence[str]) -> Models:
    """Load the params of a model after its files have been compared with its manifest."""
    path = exported_model(path)
    if (path / SCENARIO_PARAMS_FILE).is_file():
        verify_files(path)
    return open_models([path], flags)


def parse_flags(
    parser: CommandParser, models: Models, name: str, params: Any, generators: Sequence[Any]
) -> tuple[SimpleNamespace, list[Any]]:
    """Parse flags, and return them and the generators that they mean; imports the backend at the end."""
    parser.add_params(name, type(params), default=params, metadata={"fix_dc": True})
    parser.add_params("data", DataGeneratorParams, default=next(iter(generators), None), metadata=COMMON)
    for part in ("pipeline", "device"):
        parser.accept_former(f"{name}.{part}", part)
    args = parser.parse(models.flags)
    chosen = [args.data]
    if generators and type(args.data) is type(generators[0]):
        if not diff(generators[0], args.data):
            chosen = list(generators)
    elif type(args.data) is DataGeneratorParams:
        raise UsageError(
            "which data? the model names no validation data of its training: name a generator, as in "
            "--data my.package:MyGeneratorParams, and its params with --data.*"
        )
    with flags_of(getattr(args, name), name, "device"):
        prepare_devices(getattr(args, name).device, alone=True)
    return args, chosen


def evaluate(
    prog: str, models: Models, create: Callable[[LAVParams], Any], print_samples: bool = True
) -> tuple[SimpleNamespace, Any, dict[str, Any]]:
    """Run LAV by the flags of a command, and return these, what ran, and the results by name."""
    defaults: list[Any] = []
    if models.training_data is not None:
        defaults = list(models.training_data.gen.lav_gen())
    params = LAVParams(model_path=str(models.paths[0]), print_samples=print_samples)
    models.use_training_pipeline(params)
    with suppress(TfaipError):  # models of tfaip 1.2 have no manifest; damage is reported when the weights are read
        params.device.precision = precision_of(models.paths[0])
    description = f"Load and validate {described(models.scenario)}"
    files = ["out", "dump", "tensorboard"]
    parser = CommandParser(prog, description, models.all_trusted(), files, models.scenario)
    parser.add_option("--run_eagerly", help="Do not compile the model, to debug it in Python")
    args, generators = parse_flags(parser, models, "lav", params, defaults)

    from tfaip.lav import callbacks
    from tfaip.predict.samplefile import SampleWriter

    lav, pipeline = create(args.lav), args.lav.pipeline
    if pipeline.limit > 0:
        log.info("pipeline.limit %d: the first samples are evaluated, the others are left out", pipeline.limit)
    if pipeline.max_element_length is not None:
        log.info("pipeline.max_element_length %d: longer samples are left out", pipeline.max_element_length)
    with ExitStack() as stack:
        stack.enter_context(user_logs(models.scenario, models.params, *generators))
        stack.enter_context(flags_of(generators[0], "data"))
        called: list[callbacks.LAVCallback] = []
        if args.dump is not None:
            writer = stack.enter_context(SampleWriter(Path(args.dump), args.dump_inputs))
            called.append(callbacks.DumpCallback(writer))
        if args.tensorboard is not None:
            called.append(callbacks.TensorBoardCallback(Path(args.tensorboard)))
        results = list(lav.run(generators, called, args.run_eagerly))
    return args, lav, {f"lav_l{number}": one for number, one in enumerate(results)}
