"""Times of a new checkout of the toolkit / those of an old one, and of the old one against itself as the noise.

    python benchmarks/guard.py OLD [NEW] [--backend jax] [--rows lav help] [--rounds 9]

OLD and NEW are directories with a checkout, or git revisions; NEW defaults to the checkout of this script. Both run the
rows below, written with public names only, with the Python of this process. In each round old, new and old again take
turns, each in a process of its own, and new is divided by the mean of the two old ones. The exit code is 1 if the
median ratio of a row is above the limit by more than the noise, the distance of the median of old / old from 1.

- step_mlp, step_conv, step_table: an epoch of which nothing is written, tiny fully connected layers, convolutions, a
  table of 100,000 rows
- epoch: an epoch of the tutorial with validation, checkpoint, log and TensorBoard events
- lav, predict: passes of an exported model over images in memory
- wait: time by the clock from the end of a validation to the next epoch, with a checkpoint and a new best model
- help, help_scenario: `tfaip-train --help`, without and with the tutorial; no backend is loaded

All but `wait` are CPU time, without imports and compilation where the row is no command.
"""

import argparse
import contextlib
import itertools
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
from typing import Any, TextIO

from pairs import Seconds

BACKENDS = ("tensorflow", "jax")
BENCHMARKS = Path(__file__).resolve().parent
EPOCHS = 10_000  # more than there are rounds: a process ends when it gets no further turn
STARTS = 3  # of a command in a round
WARM_UP = 2  # rounds that are not measured
WRITING_S = 0.3  # pause in which the files of all contestants are written
Turn = Callable[..., None]
Round = Callable[[], float]


# --- Rows. They run in a process that imports the toolkit of one checkout.


def train_steps(network: str, samples: int, turn: Turn) -> None:
    """Train epoch by epoch, without any files."""
    from images import toolkit

    toolkit(network, samples, EPOCHS, None)(turn)


def train_tutorial(turn: Turn, directory: Path) -> None:
    """Train the tutorial. The best model is not exported: the epochs that are better vary."""
    from images import Begin, ProgressBarMode

    from tfaip.scenario.tutorial.full.scenario import TutorialScenario

    params = TutorialScenario.default_trainer_params()
    params.epochs, params.output_dir, params.export_best = EPOCHS, str(directory / "run"), False
    params.gen.setup.train.num_processes = params.gen.setup.val.num_processes = 0
    params.progress_bar_mode = ProgressBarMode.PLAIN
    TutorialScenario.create_trainer(params).train([Begin(turn)])


def export_model(directory: Path) -> tuple[Any, Path]:
    """Train the tiny MLP for a moment; return its params and the directory of its best model."""
    from images import BenchmarkScenario, benchmark_params

    params = benchmark_params("mlp", 160, 1, directory / "run")
    params.scenario.export_serve = False
    BenchmarkScenario.create_trainer(params).train()
    return params.scenario, directory / "run" / "best"


def evaluate(samples: int, turn: Turn, directory: Path) -> None:
    """Evaluate the same images again and again."""
    from images import BenchmarkScenario, ImagesParams

    from tfaip.imports import LAVParams

    scenario_params, model = export_model(directory)
    params = LAVParams(silent=True, model_path=str(model))
    params.pipeline.batch_size = 16
    # LAV loads the model once, and takes the next generator when the last one is evaluated.
    for _ in BenchmarkScenario.create_lav(params, scenario_params).run(itertools.repeat(ImagesParams(samples=samples))):
        turn()


def predict(samples: int, turn: Turn, directory: Path) -> None:
    """Predict the same images again and again."""
    from images import BenchmarkScenario, ImagesParams

    from tfaip.imports import PredictorParams

    _, model = export_model(directory)
    params = PredictorParams(silent=True)
    params.pipeline.batch_size = 16
    predictor = BenchmarkScenario.create_predictor(model, params)
    while True:
        turn()
        for _ in predictor.predict(ImagesParams(samples=samples)):
            pass


def write_checkpoints(turn: Turn, directory: Path) -> None:
    """Train 6 million weights by one batch per epoch, so slowly that the model becomes better in each epoch."""
    from images import BenchmarkScenario, benchmark_params, keras

    params = benchmark_params("wide", 64, EPOCHS, directory / "run", 64)
    params.gen.val.samples, params.gen.setup.val.batch_size = 64, 64
    params.val_every_n, params.learning_rate.lr = 1, 1e-6
    evaluated: list[float] = []

    def begin_epoch(epoch: int, logs: Any) -> None:
        turn(time.perf_counter() - evaluated.pop() if evaluated else None)
        time.sleep(WRITING_S)

    def end_evaluation(logs: Any) -> None:
        evaluated.append(time.perf_counter())

    # After a validation the device has nothing left to do.
    callback = keras.callbacks.LambdaCallback(on_epoch_begin=begin_epoch, on_test_end=end_evaluation)
    BenchmarkScenario.create_trainer(params).train([callback])


ROWS: dict[str, Callable[[Turn, Path], None]] = {
    "step_mlp": lambda turn, directory: train_steps("mlp", 24_000, turn),
    "step_conv": lambda turn, directory: train_steps("conv", 800, turn),
    "step_table": lambda turn, directory: train_steps("table", 800, turn),
    "epoch": train_tutorial,
    "lav": lambda turn, directory: evaluate(20_000, turn, directory),
    "predict": lambda turn, directory: predict(20_000, turn, directory),
    "wait": write_checkpoints,
}
COMMANDS = {
    "help": ["--help"],
    "help_scenario": ["tfaip.scenario.tutorial.full", "--help"],
}


def serve_turns(row: str, directory: Path) -> None:
    """Run a row whose rounds are the lines of stdin; answer each with its seconds."""
    logging.getLogger("tfaip").setLevel(logging.ERROR)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a row prints is no answer
    ROWS[row](turn_of(answers), directory)


def turn_of(answers: TextIO) -> Turn:
    """Return the function that ends a round with an answer, and returns when the next one begins.

    An answer is the argument of the function; without one it is the CPU time since the last answer, which includes
    what is written in the background during the turns of other processes.
    """
    ended: list[float] = []

    def turn(measured: float | None = None) -> None:
        cpu = Seconds.now().cpu
        if ended:
            print(cpu - ended.pop() if measured is None else measured, file=answers, flush=True)
        if not sys.stdin.readline():
            os._exit(0)
        ended.append(cpu)

    return turn


# --- The comparison.


def environment(*path: Path) -> dict[str, str]:
    """Return the variables of a process that imports modules from `path`."""
    # With compiled modules, as everywhere: else a start measures the compiler.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPATH": os.pathsep.join(map(str, path)), "TF_CPP_MIN_LOG_LEVEL": "3"}


@contextlib.contextmanager
def process_of(checkout: Path, row: str, backend: str) -> Iterator[Round]:
    """Start the process of a row; the value runs one round and returns its seconds."""
    with (
        tempfile.TemporaryDirectory() as directory,
        tempfile.TemporaryFile("w+") as errors,
        # `-P`: the toolkit beside this script is not imported.
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", __file__, "--serve", row, directory],
            cwd=checkout,
            env={**environment(checkout, BENCHMARKS), "KERAS_BACKEND": backend, "TMPDIR": directory},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None  # noqa: S101
        assert process.stdout is not None  # noqa: S101

        def run_round() -> float:
            print(file=process.stdin, flush=True)
            answer = process.stdout.readline()
            if not answer:
                errors.seek(0)
                raise SystemExit(f"{row} on {backend} has failed in {checkout}:\n{errors.read()[-2000:]}")
            return float(answer)

        try:
            yield run_round
        finally:
            process.stdin.close()
            process.wait()


def command_seconds(checkout: Path, row: str) -> float:
    """Return the CPU time of the starts of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-P", "-m", "tfaip.scripts.train", *COMMANDS[row]]
    for _ in range(STARTS):
        subprocess.run(command, cwd=checkout, env=environment(checkout), check=True, capture_output=True)  # noqa: S603
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(row: str, backend: str, old: Path, new: Path, rounds: int) -> list[list[float]]:
    """Return the seconds of old, new and old again in each round."""
    sides: list[Round] = []
    with contextlib.ExitStack() as stack:
        for checkout in (old, new, old):
            if row in COMMANDS:
                sides.append(lambda checkout=checkout: command_seconds(checkout, row))
            else:
                sides.append(stack.enter_context(process_of(checkout, row, backend)))
        times = [[run_round() for run_round in sides] for _ in range(WARM_UP + rounds)]
    return times[WARM_UP:]


def is_slower(row: str, backend: str, times: list[list[float]], limit: float) -> bool:
    """Print the line of a row; return True if the new checkout is too slow."""
    ratios = [2 * new / (old + again) for old, new, again in times]
    against_itself = [again / old for old, _, again in times]
    ratio, noise = statistics.median(ratios), statistics.median(against_itself)
    slower = ratio > limit + abs(noise - 1)
    seconds = statistics.median(old for old, _, _ in times)
    print(
        f"{row:14} {backend:11} {seconds:8.3f} s  {ratio:6.3f} ({min(ratios):.3f}, {max(ratios):.3f})  "
        f"{noise:6.3f} ({min(against_itself):.3f}, {max(against_itself):.3f}){'  slower' if slower else ''}",
        flush=True,
    )
    return slower


@contextlib.contextmanager
def checkout_of(name: str) -> Iterator[Path]:
    """Return the directory, or a temporary checkout of the revision."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    git = ["git", "-C", str(BENCHMARKS), "worktree"]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "checkout")
        subprocess.run([*git, "add", "--quiet", "--detach", str(path), name], check=True)  # noqa: S603
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)  # noqa: S603


def main() -> int:
    """Parse the command line, measure all rows, return the exit code."""
    names = [*ROWS, *COMMANDS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="directory of the old checkout, or a git revision")
    parser.add_argument("new", nargs="?", default=str(BENCHMARKS.parent), help="the same of the new checkout")
    parser.add_argument("--backend", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--rows", nargs="+", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=9, help="measured rounds of each row")
    parser.add_argument("--limit", type=float, default=1.03, help="largest ratio that is not slower")
    args = parser.parse_args()
    slower = []
    with checkout_of(args.old) as old, checkout_of(args.new) as new:
        print(f"{'':26} {'old':>10}  {'new / old (min, max)':23} old / old (min, max)", flush=True)
        for row in args.rows:
            for backend in ("-",) if row in COMMANDS else args.backend:
                times = measure(row, backend, old, new, args.rounds)
                if is_slower(row, backend, times, args.limit):
                    slower.append(row)
    return 1 if slower else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve_turns(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
