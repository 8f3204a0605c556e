"""Kill real trainings at random moments, resume them, and compare each with the one that was never killed.

    python -m test.kill_series --seed 1 --n 50 [--backend tensorflow] [--settings workers buckets]
    python -m test.kill_series --stages --seed 1 --n 20

A case is a training of one of the settings, as a process. Up to three times it is killed by SIGKILL, at a moment drawn
uniformly from the time that the uninterrupted run of the same setting took, and then resumed; a run without a
checkpoint yet is started again. When it has finished, its directory is compared with that of the uninterrupted run:
`best/`, `export/`, the newest checkpoint, the directories of the stages, the history and the params byte for byte,
without times. With `--stages` a training has three stages of different widths, another optimizer in the last one, and
between them a prediction and the call of a function. Beside the run, in
it, among the processes and in the shared memory nothing may be left. Ends with exit code 1 after any difference.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from test.support.commands import (
    TIMEOUT_S,
    VARIABLES,
    Process,
    finish_command,
    group_ended,
    kill_group,
    start_command,
)
from test.support.leaks import find_leaks, take_snapshot
from test.support.runs import checkpoints, files_below, latest, without_seconds

PACKAGE = Path(__file__).resolve().parent / "support" / "sequences"
RUN, TEMPORARY = "run", "temporary"
MAX_KILLS = 3

_WITHIN_EPOCHS = ["--trainer.checkpoint_save_freq", "3"]
_LENGTHS = ["--train.shortest", "2", "--train.longest", "9", "--val.shortest", "2", "--val.longest", "9"]
# Values of the model and of its optimizer, noise on weights, and data whose difficulty grows.
_SCHEDULES = [
    ("optimizer.clip_global_norm", "0=1 6=0.2", "exponential"),
    ("graph.dropout.rate", "0=0 12=0.5", "linear"),
    ("loss_weights.mse", "0=0.5 3.5=1", "step"),
    ("optimizer.weight_decay", "0=0 12=0.1", "cosine"),
    ("weight_noise.stddev", "2.5=0 6=0.05", "linear"),
    ("weight_penalties.0.l2", "0=0.01 5=0", "linear"),
    ("train.max_element_length", "0=4 4=6 8=9", "step"),
    ("train.batch_size", "0=4 8=6", "step"),
    ("data.pre_proc.processors.0.noise", "0=0.05 4=0.2", "step"),
]


def _schedules() -> Iterator[str]:
    """Yield the flags of the schedules."""
    yield from ("--schedules", *repeat("Schedule", len(_SCHEDULES)))
    for index, (target, points, interpolation) in enumerate(_SCHEDULES):
        flag = f"--schedules.{index}"
        yield from (f"{flag}.target", target, f"{flag}.points", *points.split())
        yield from (f"{flag}.interpolation", interpolation)


SETTINGS = {
    "plain": [],
    "averages and accumulation": [
        *("--trainer.calc_ema", "-1", "--trainer.train_accum_steps", "3", "--trainer.checkpoint_save_freq", "2")
    ],
    "workers": [*_WITHIN_EPOCHS, "--train.num_processes", "2"],
    "skip": [
        *(*_WITHIN_EPOCHS, "--train.on_error", "skip", "--data.pre_proc.processors.0.fail_rate", "0.1"),
        *("--data.pre_proc.processors.0.drop_rate", "0.1"),
    ],
    "skip in workers": [
        *(*_WITHIN_EPOCHS, "--train.on_error", "skip", "--data.pre_proc.processors.0.fail_rate", "0.1"),
        *("--train.num_processes", "2"),
    ],
    "within epochs": ["--trainer.checkpoint_save_freq", "1", "--trainer.steps_per_execution", "1"],
    "buckets": [
        *(*_WITHIN_EPOCHS, *_LENGTHS, "--train.bucket_boundaries", "4", "7", "--val.bucket_boundaries", "4", "7"),
        *("--train.max_element_length", "9", "--val.max_element_length", "9"),
    ],
    "best": [*("--trainer.val_every_n", "2", "--early_stopping.n_to_go", "9", "--early_stopping.frequency", "2")],
    "LAV": [*_WITHIN_EPOCHS, "--trainer.lav_every_n", "1", "--trainer.lav_silent", "True"],
    "warm-up": [
        *(*_WITHIN_EPOCHS, "--learning_rate", "WarmupCosineDecay", "--learning_rate.step_function", "False"),
        *("--learning_rate.warmup_epochs", "3", "--optimizer", "AdaBelief", "--optimizer.clip_global_norm", "0.3"),
    ],
    "schedules": [
        *(*_WITHIN_EPOCHS, *_LENGTHS, "--train.num_processes", "2", *_schedules()),
        *("--weight_penalties", "WeightPenalty", "--weight_penalties.0.match", ".*kernel"),
    ],
}


STAGES = "stages"
_STAGES_FLAGS = [
    *("--stages", "small=TrainStage", "middle=TrainStage", "apply=PredictStage", "count=CallStage", "wide=TrainStage"),
    *("--stages.small.epochs", "3", "--stages.small.overrides", "model.units=3", "optimizer=SGD"),
    *("--stages.middle.epochs", "3", "--stages.middle.overrides", "model.units=5", "trainer.calc_ema=0.9"),
    *("--stages.apply.file_name", "predictions.npz", "--stages.apply.include_targets", "True"),
    *("--stages.count.function", f"{PACKAGE.name}.calls:count_samples"),
    *("--stages.wide.epochs", "2", "--stages.wide.overrides", "model.units=12", "train.samples=16"),
    *("--trainer.train_accum_steps", "3", "--trainer.checkpoint_save_freq", "2"),
]
PROGRAM = "program"
# Not in turn with the others, since such a training has another form.
ALL_SETTINGS = {**SETTINGS, STAGES: _STAGES_FLAGS, PROGRAM: ["--trainer.checkpoint_save_freq", "2"]}
SCENARIOS = {PROGRAM: f"{PACKAGE.name}.program"}


class Series:
    """Kills and resumes trainings below a directory, which is empty; what has no difference is removed."""

    def __init__(self, directory: Path, backend: str) -> None:
        self._directory = directory
        self._env = {**VARIABLES, "KERAS_BACKEND": backend, "PYTHONDONTWRITEBYTECODE": "1"}
        self._expected: dict[str, tuple[dict[str, Any], float]] = {}

    def run(self, number: int, setting: str, moments: Sequence[float]) -> tuple[list[str], list[str]]:
        """Kill a training at these shares of the time of the uninterrupted run, and resume it until it has finished."""
        if setting not in self._expected:
            self._expected[setting] = self._uninterrupted(setting)
        expected, duration = self._expected[setting]
        place, kills, before = self._place(f"case_{number:03d}"), [], take_snapshot()
        for moment in moments:
            if not _kill_after(self._start(place, setting), moment * duration):
                break
            kills.append(f"{moment * duration:.1f} s {_newest(place / RUN)}".strip())
        result = finish_command(self._start(place, setting))
        if result.rc == 0:
            found = [*differences(facts_of(place / RUN), expected), *left_over(place)]
        else:
            found = [f"the last process ended with {result}"]
        found += find_leaks(before)
        if not found:
            shutil.rmtree(place)
        return kills, found

    def _uninterrupted(self, setting: str) -> tuple[dict[str, Any], float]:
        """Train without a kill; return the facts of the run, and the seconds that it took."""
        place, begun = self._place(f"uninterrupted_{setting.replace(' ', '_')}"), time.monotonic()
        result = finish_command(self._start(place, setting))
        if (result.rc, result.stderr) != (0, ""):
            raise RuntimeError(f"the uninterrupted run of {setting!r} failed: {result}")
        return facts_of(place / RUN), time.monotonic() - begun

    def _place(self, name: str) -> Path:
        place = self._directory / name
        shutil.copytree(PACKAGE, place / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
        return place

    def _start(self, place: Path, setting: str) -> Process:
        """Start a process that resumes the run, or begins it if there is no checkpoint.

        Every process has a directory for temporary files, since one that is killed leaves there what it had.
        """
        shutil.rmtree(place / TEMPORARY, ignore_errors=True)
        (place / TEMPORARY).mkdir()
        env = {**self._env, "TMPDIR": str(place / TEMPORARY)}
        if _newest(place / RUN):
            return start_command("resume_training", RUN, cwd=place, env=env)
        overwrite = ["--overwrite"] if (place / RUN).exists() else []
        flags = [*ALL_SETTINGS[setting], "--trainer.output_dir", RUN, *overwrite]
        return start_command("train", SCENARIOS.get(setting, PACKAGE.name), *flags, cwd=place, env=env)


def _kill_after(process: Process, seconds: float) -> bool:
    """Kill a process at this moment; False if it had ended before."""
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=TIMEOUT_S)
    if not group_ended(process):
        kill_group(process)
        raise RuntimeError("processes of a killed training did not end")
    return process.returncode == -signal.SIGKILL


def _newest(run: Path) -> str:
    """Name of the newest checkpoint; empty if there is none."""
    names = checkpoints(run) if (run / "checkpoint").is_dir() else []
    return max([name for name in names if name.startswith("epoch_")], default="")


def facts_of(run: Path) -> dict[str, Any]:
    """Return all that equal runs have in common, by name."""
    checkpoint = run / "checkpoint" / latest(run)
    state = _read_json(checkpoint / "state.json", run)
    facts = {"params": _read_json(run / "trainer_params.json", run), "newest checkpoint": checkpoint.name}
    facts["history"] = without_seconds(_read_json(run / "history.json", run))
    facts["state"] = {**state, "history": without_seconds(json.loads(state["history"]))}
    facts["arrays"] = (checkpoint / "state.safetensors").read_bytes()
    facts["entries"] = sorted(path.name for path in run.iterdir())
    facts["checkpoints"] = checkpoints(run)
    for file, content in files_below(run / STAGES).items():
        if not file.endswith(("history.json", "state/state.json", "manifest.json")):
            facts[f"stages/{file}"] = content.replace(str(run.parent).encode(), b"")
    models = {"best": run / "best", "export": run / "export", "best of the checkpoint": checkpoint / "best"}
    for name, model in models.items():
        facts |= {f"{name}/{file}": content for file, content in files_below(model).items()}
    return facts


def _read_json(path: Path, run: Path) -> Any:
    """Read a file of a run without the place where the run is, which is in its params."""
    return json.loads(path.read_text().replace(str(run.parent), ""))


def differences(facts: dict[str, Any], expected: dict[str, Any]) -> list[str]:
    """Name what differs between two runs, in a line each."""
    names = dict.fromkeys([*expected, *facts])
    return [f"{name} differs" for name in names if facts.get(name) != expected.get(name)]


def left_over(place: Path) -> Iterator[str]:
    """Name what is in the directory of a case or below, and should not be, in a line each."""
    expected = {RUN, TEMPORARY, PACKAGE.name}
    yield from (f"{entry} is left beside the run" for entry in place.iterdir() if entry.name not in expected)
    yield from (f"{entry} is left" for entry in (place / TEMPORARY).iterdir())
    yield from (f"{entry} is left in the run" for entry in (place / RUN).rglob(".tmp-*"))


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="other seeds give other moments")
    parser.add_argument("--n", type=int, default=len(SETTINGS), help="number of cases")
    parser.add_argument("--backend", default="tensorflow", choices=["tensorflow", "jax"])
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(ALL_SETTINGS), metavar="SETTING")
    parser.add_argument("--stages", action="store_true", help="trainings with stages, of a list and of a program")
    parser.add_argument("--directory", type=Path, help="where to run (default: a temporary directory)")
    args = parser.parse_args(argv)
    directory = Path(tempfile.mkdtemp(prefix="kill-series-", dir=args.directory))
    series, settings = Series(directory, args.backend), [PROGRAM, STAGES] if args.stages else args.settings
    num_kills = num_failed = 0
    for number in range(args.n):
        setting, rng = settings[number % len(settings)], random.Random(f"{args.seed} {number}")  # noqa: S311 (no secret)
        kills, found = series.run(number, setting, [rng.random() for _ in range(rng.randint(1, MAX_KILLS))])
        how = f"killed after {', '.join(kills)}" if kills else "not killed"
        print(f"case {number} ({setting}), {how}: {'; '.join(found) or 'identical'}", flush=True)
        num_kills, num_failed = num_kills + len(kills), num_failed + bool(found)
    print(f"{args.n} cases, {num_kills} kills: {args.n - num_failed} identical, {num_failed} different")
    if num_failed:
        print(f"the runs that differ are kept in {directory}")
    else:
        shutil.rmtree(directory)
    return int(num_failed > 0)


if __name__ == "__main__":
    sys.exit(main())
