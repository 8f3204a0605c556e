"""Two checkouts of the toolkit against each other: each benchmark's own side, round by round in turn.

    python benchmarks/compare.py OLD NEW [--pairs 9] [--only epoch step_hook] [--scale 0.5]
    KERAS_BACKEND=jax python benchmarks/compare.py OLD NEW

OLD and NEW are directories with a checkout; both run with the Python of this process. Every
contestant is a process of its own, which waits until it is its turn. The table has the ratio
new / old by the clock and of CPU time; the second says more on a busy machine.
"""

import argparse
import contextlib
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROUNDS_FIRST = 2  # of a contestant: the first warms up
MLP, CONV = 30_000, 2_240  # images of an epoch
QUIET = {"write_checkpoints": False, "export_best": False, "export_final": False}
# Flags of a command whose whole process is one round.
COMMANDS = {
    "help": ["--help"],
    "help_tutorial": ["tfaip.scenario.tutorial.full", "--help"],
}
Turn = Callable[[], None]
Contestant = Callable[[Turn], None]


# --- Contestants: they run in a process that imports the toolkit, `images` and `pairs` of one checkout.


def training(network: str, samples: int, has_directory: bool, **fields: Any) -> Contestant:
    """Train epoch by epoch."""

    def run(turn: Turn) -> None:
        from images import toolkit

        with tempfile.TemporaryDirectory() as directory:
            output = Path(directory) / "run" if has_directory else None
            # The last epoch is never reached: the process ends when it gets no further turn.
            toolkit(network, samples, 10_000, output, **fields)(turn)

    return run


def prediction(network: str, samples: int, batch: int, is_lav: bool) -> Contestant:
    """Predict or validate the same samples again and again."""

    def run(turn: Turn) -> None:
        from images import BenchmarkScenario, ImagesParams

        from tfaip.lav.evaluation import PredictionEvaluation
        from tfaip.predict.params import PredictorParams
        from tfaip.predict.predictor import Predictor

        params = BenchmarkScenario.default_params()
        params.model.network = network
        scenario, generator = BenchmarkScenario(params), ImagesParams(samples=samples)
        predict = PredictorParams(silent=True)
        predict.pipeline.batch_size = batch
        evaluation = PredictionEvaluation(scenario, predict.pipeline, silent=True)
        predictor = Predictor(predict, scenario.data)
        predictor.set_model(scenario.graph)
        while True:
            turn()
            if is_lav:
                evaluation.run(generator)
            else:
                sum(1 for _ in predictor.predict(generator))

    return run


def gradient_step(steps: int, **arguments: Any) -> Contestant:
    """Train epoch by epoch with bare `fit` and the optimizer of the toolkit."""

    def run(turn: Turn) -> None:
        from gradient_hook import BACKEND, NOISE, Training, arguments_of_fit, ours

        if arguments.pop("has_noise", False):
            arguments["gradient_noise"] = NOISE
        train = Training(ours(**arguments), arguments_of_fit(steps), 16 if BACKEND == "tensorflow" else 1)
        while True:
            turn()
            train.epoch_seconds()

    return run


def contestants(scale: float) -> dict[str, Contestant]:
    """Return the contestants by name; `scale` is a factor on the length of a round."""
    mlp, conv, steps = int(MLP * scale), int(CONV * scale), int(2000 * scale)
    clips = {"clip_value": 1.0, "clip_norm": 1.0, "clip_global_norm": 1.5}
    return {
        "epoch": training("mlp", mlp, True),
        "epoch_no_export": training("mlp", mlp, True, export_best=False),
        "epoch_conv": training("conv", conv, True, export_best=False),
        "ema": training("mlp", mlp, False, calc_ema=-1.0),
        "watching": training("mlp", mlp, True, **QUIET),
        "predict_tiny": prediction("mlp", int(20_000 * scale), 16, False),
        "lav_tiny": prediction("mlp", int(20_000 * scale), 16, True),
        "predict_heavy": prediction("wide", int(4096 * scale), 128, False),
        "lav_heavy": prediction("wide", int(4096 * scale), 128, True),
        "step_default": gradient_step(steps),
        "step_hook": gradient_step(steps, average=True, **clips),
        "step_noise": gradient_step(steps, average=True, has_noise=True, **clips),
        "step_accumulate": gradient_step(steps, accum_steps=4),
    }


def serve_turns(contestant: Contestant) -> None:
    """Run a contestant whose rounds are the lines of stdin; answer each with its two times."""
    logging.getLogger("tfaip").setLevel(logging.ERROR)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the contestant prints is no answer
    from pairs import Seconds

    started: list[Seconds] = []

    def turn() -> None:
        if started:
            taken = Seconds.now().since(started.pop())
            print(taken.wall, taken.cpu, file=answers, flush=True)
        if not sys.stdin.readline():
            os._exit(0)
        started.append(Seconds.now())

    contestant(turn)


# --- The race.


def environment(path: str) -> dict[str, str]:
    """Return the variables of a process that imports modules from `path`."""
    # With compiled modules, as everywhere: else a start measures the compiler.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}


@contextlib.contextmanager
def process_of(checkout: Path, name: str, scale: float) -> Iterator[Callable[[], tuple[float, float]]]:
    """Start a contestant; the value runs one round and returns its seconds by the clock and of the CPU."""
    path = os.pathsep.join(map(str, (checkout, checkout / "benchmarks")))
    command = [sys.executable, "-P", __file__, "--contestant", name, "--scale", str(scale)]
    # `-P`: the modules beside this file are those of one checkout only.
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(  # noqa: S603
            command,
            env=environment(path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101

        def run_round() -> tuple[float, float]:
            print(file=process.stdin, flush=True)
            answer = process.stdout.readline().split()
            if not answer:
                errors.seek(0)
                raise SystemExit(f"{name} of {checkout} has failed:\n{errors.read()[-2000:]}")
            return float(answer[0]), float(answer[1])

        try:
            yield run_round
        finally:
            process.stdin.close()
            process.wait()


@contextlib.contextmanager
def command_of(checkout: Path, name: str) -> Iterator[Callable[[], tuple[float, float]]]:
    """Return a context whose value runs a command once."""

    def run_round() -> tuple[float, float]:
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        command = [sys.executable, "-P", "-m", "tfaip.scripts.train", *COMMANDS[name]]
        subprocess.run(command, env=environment(str(checkout)), check=True, capture_output=True)  # noqa: S603
        wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    yield run_round


def compare(name: str, old: Path, new: Path, pairs: int, scale: float) -> None:
    """Print the line of one contestant."""
    with contextlib.ExitStack() as stack:
        rounds = [
            stack.enter_context(command_of(c, name) if name in COMMANDS else process_of(c, name, scale))
            for c in (old, new)
        ]
        for _ in range(ROUNDS_FIRST):
            for run_round in rounds:
                run_round()
        times = []
        for i in range(pairs):
            # Who begins alternates: what slows the machine down hits both alike.
            order = (0, 1) if i % 2 == 0 else (1, 0)
            taken = {side: rounds[side]() for side in order}
            times.append((taken[0], taken[1]))
    wall, cpu = ([n[k] / o[k] for o, n in times] for k in (0, 1))
    seconds = [statistics.median(pair[side][0] for pair in times) for side in (0, 1)]
    print(
        f"{name:16} {seconds[0]:8.3f} {seconds[1]:8.3f}  {statistics.median(wall):6.3f} ({min(wall):.3f}, "
        f"{max(wall):.3f})  {statistics.median(cpu):6.3f} ({min(cpu):.3f}, {max(cpu):.3f})",
        flush=True,
    )


def main() -> None:
    """Parse the command line and compare."""
    names = [*contestants(1.0), *COMMANDS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, nargs="?", help="directory of the old checkout")
    parser.add_argument("new", type=Path, nargs="?", help="directory of the new checkout")
    parser.add_argument("--pairs", type=int, default=9, help="rounds of each that are compared")
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the length of a round")
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contestant is not None:
        serve_turns(contestants(args.scale)[args.contestant])
        return
    for checkout in (args.old, args.new):
        if checkout is None or not (checkout / "tfaip").is_dir():
            parser.error(f"{checkout} is no checkout of the toolkit: name two, the old and the new one")
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    print(f"{backend}, {os.cpu_count()} CPUs, {args.pairs} pairs; median (min, max) of new / old")
    print(f"{'':16} {'old, s':>8} {'new, s':>8}  {'by the clock':22}  of CPU time", flush=True)
    for name in args.only:
        compare(name, args.old.resolve(), args.new.resolve(), args.pairs, args.scale)


if __name__ == "__main__":
    main()
