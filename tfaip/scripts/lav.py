"""`tfaip-lav --export_dir DIR [flags]`: load an exported model and validate it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tfaip.scripts.dryrun import add_dry_run, plan_for_models
from tfaip.scripts.models import Models, chosen_data, take_models
from tfaip.scripts.results import check_files, print_results, write_results
from tfaip.scripts.roof import run_command
from tfaip.util.userlogs import user_logs

PROG = "tfaip-lav"
FLAG = "--export_dir"
USAGE = f"""usage: {PROG} {FLAG} DIR [flags]

Load an exported model (best/ or export/ of a run; of a run itself its best) and validate it: its prediction graph, the
whole post-processing, and the evaluator of the scenario, by default on the data that the training validated on.

  --dry_run              check model and data, say what would be done, write nothing
  --trust PKG [PKG ...]  packages that the stored params may name classes of, besides tfaip and the scenario's own

{PROG} {FLAG} DIR --help shows all flags."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    models = take_models(argv, FLAG, PROG, USAGE, several=False)
    if models is None:
        return
    args, generators = parse_flags(f"{PROG} {FLAG} {models.paths[0]}", models)
    if args.dry_run:
        plan(args, models, generators)
        return
    lav = models.scenario.create_lav(args.lav, models.params)
    with ExitStack() as stack:
        stack.enter_context(user_logs(models.scenario, models.params, *generators))
        results = list(lav.run(generators, callbacks_of(args, stack), args.run_eagerly))
    names = [f"lav_l{number}" for number in range(len(results))]
    print_results(dict(zip(names, results, strict=True)))
    if args.out is not None:
        write_results(
            args.out,
            {
                "model": str(models.paths[0]),
                "results": dict(zip(names, results, strict=True)),
                "benchmark": lav.benchmark_results.to_dict(),
            },
        )


def parse_flags(prog: str, models: Models) -> tuple[SimpleNamespace, list[Any]]:
    """The params and options of an evaluation, and its generators; imports the backend at the end.

    Args:
        prog: how the command was called, for `--help`.
        models: what to evaluate.
    """
    from tfaip.data.databaseparams import DataGeneratorParams
    from tfaip.lav.params import LAVParams
    from tfaip.params.cli import ParamsParser
    from tfaip.params.help import described

    stored = models.training_data
    defaults = [] if stored is None else list(stored.gen.lav_gen())
    lav = LAVParams(model_path=str(models.paths[0]))
    if stored is not None:
        lav.pipeline, lav.random_seed = stored.gen.setup.val, stored.random_seed
    parser = ParamsParser(prog, f"Load and validate {described(models.scenario)}", models.all_trusted())
    parser.add_option("--run_eagerly", help="Do not compile the model, to debug it in Python")
    add_outputs(parser)
    add_dry_run(parser)
    parser.add_option("--tensorboard", type=str | None, help="Directory for events of TensorBoard")
    parser.add_params("lav", LAVParams, default=lav, metadata={"fix_dc": True})
    parser.add_params("data", DataGeneratorParams, default=defaults[0] if defaults else None)
    for name in ("pipeline", "device"):
        parser.accept_former(f"lav.{name}", name)
    args = parser.parse(models.flags)
    check_files(args.out, args.dump)
    generators = chosen_data(args.data, defaults)

    from tfaip.device.devices import prepare_devices

    prepare_devices(args.lav.device, alone=True)
    return args, generators


def plan(args: SimpleNamespace, models: Models, generators: list[Any]) -> None:
    """Check models and data, and print what an evaluation would do."""
    from tfaip.data.pipeline.definitions import PipelineMode

    data = [(args.lav.pipeline, generator, PipelineMode.EVALUATION) for generator in generators]
    plan_for_models(models, "validate {} on", data, [args.out, args.dump, args.tensorboard])


def add_outputs(parser: Any) -> None:
    """The flags that name files to write."""
    parser.add_option("--out", type=str | None, help="Write the results as JSON into this file")
    parser.add_option(
        "--dump",
        type=str | None,
        help="Write the samples (targets, outputs, meta) into this file, .jsonl (JSON lines) or .npz (NumPy)",
    )
    parser.add_option("--dump_inputs", help="Write the inputs into --dump too")


def callbacks_of(args: SimpleNamespace, stack: ExitStack) -> list[Any]:
    """The callbacks that the flags ask for; files are open until the stack ends."""
    from tfaip.lav.callbacks import DumpCallback, LAVCallback, TensorBoardCallback
    from tfaip.predict.samplefile import SampleWriter

    callbacks: list[LAVCallback] = []
    if args.dump is not None:
        callbacks.append(DumpCallback(stack.enter_context(SampleWriter(Path(args.dump), args.dump_inputs))))
    if args.tensorboard is not None:
        callbacks.append(TensorBoardCallback(Path(args.tensorboard)))
    return callbacks


if __name__ == "__main__":
    sys.exit(main())
