"""Command lines with odd values: every flag of some scenarios and commands, in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from test.support.fuzz.session import run_here
from test.support.fuzz.values import FLAGS, SEVERAL, WORDS
from tfaip.scripts import (
    benchmark_input_pipeline,
    evaluate,
    export,
    lav,
    multi_lav,
    predict,
    preview_schedule,
    replay_learning_rate,
    resume_training,
    train,
    train_from_params,
)
from tfaip.trainer.optimizer import OPTIMIZERS
from tfaip.trainer.scheduler import MODULATIONS, SCHEDULES

MAINS: dict[str, Callable[[Sequence[str]], int]] = {
    module.__name__.rpartition(".")[2]: module.main
    for module in (
        benchmark_input_pipeline,
        evaluate,
        export,
        lav,
        multi_lav,
        predict,
        preview_schedule,
        replay_learning_rate,
        resume_training,
        train,
        train_from_params,
    )
}
Flags = Mapping[str, tuple[str, ...]]

TINY, LISTS = "test.support.tiny", "test.support.fuzz.lists_scenario"
TUTORIAL = "tfaip.scenario.tutorial.full"
# Of a run of the tutorial, relative to the working directory.
RUN, MODEL = "stored/run", "stored/run/best"
OUTPUT = {"--trainer.output_dir": ("run",)}
# An epoch of few batches. A flag that is tried replaces what is here.
SHORT = {**OUTPUT, "--trainer.epochs": ("2",), "--trainer.samples_per_epoch": ("12",), "--trainer.random_seed": ("5",)}
OF_LISTS = {"--train.lists": ("numbers.txt",), "--val.lists": ("numbers.txt",)}
OF_TUTORIAL = {
    "--train.batch_size": ("4",),
    "--val.limit": ("8",),
    "--model.graph": ("MLP",),
    "--trainer.skip_model_load_test": ("True",),
}
# What a flag names is written.
TARGETS = ("--trainer.output_dir", "--trainer.history_file", "--out", "--dump", "--png", "--tensorboard")
# How many samples or units: the scenario of the test allocates them, whatever the machine has.
SIZES = ("--model.units", "--model.graph.units", "--train.samples", "--val.samples", "--data.samples")
PROCESSES = (".num_processes", ".num_threads")


@dataclass(frozen=True)
class Line:
    """One command line.

    Args:
        command: module of `tfaip.scripts`.
        start: arguments before all flags.
        base: flags that make the run short, and choose classes.
        flag: what is tried, with dashes; empty: `words` come where a flag is expected.
        words: its values.
        joined: written as `--flag=value`.
    """

    command: str
    start: tuple[str, ...]
    base: tuple[tuple[str, tuple[str, ...]], ...]
    flag: str
    words: tuple[str, ...]
    joined: bool = False

    @property
    def argv(self) -> list[str]:
        """The arguments of the command."""
        argv = list(self.start)
        for flag, words in self.base:
            if flag != self.flag:
                argv += [flag, *words]
        if self.joined:
            return [*argv, f"{self.flag}={self.words[0]}"]
        return [*argv, *([self.flag] if self.flag else []), *self.words]

    @property
    def can_be_run(self) -> bool:
        """False if it asks for more memory than there is, or for hundreds of processes."""
        limit = 6 if self.flag in SIZES else 3 if self.flag.endswith(PROCESSES) else None
        return limit is None or all(len(word) < limit for word in self.words)

    @property
    def targets(self) -> list[Path]:
        """What the line may write."""
        named = [Path(word) for word in self.words[:1] if self.flag in TARGETS]
        changes_run = self.command in ("resume_training", "export")
        return [Path("run"), *([Path("stored")] if changes_run else []), *named]


@dataclass(frozen=True)
class Variant:
    """The beginning of command lines, and the flags that are tried with it."""

    command: str
    start: tuple[str, ...]
    base: tuple[tuple[str, tuple[str, ...]], ...]
    flags: tuple[str, ...]


def training_lines(seed: int, count: int) -> list[Line]:
    """The first `count` lines of tfaip-train in the order of the seed."""
    return _in_order(seed, count, _training_variants())


@cache
def _training_variants() -> list[Variant]:
    """The scenarios, and the tiny one with every class that can be chosen."""
    found = [
        _variant("train", (scenario,), {**SHORT, **base})
        for scenario, base in ((TINY, {}), (LISTS, OF_LISTS), (TUTORIAL, OF_TUTORIAL))
    ]
    known = set(found[0].flags)
    chosen = [_variant("train", (TINY,), {**SHORT, **classes}, known) for classes in _classes()]
    return [*found, *chosen]


def command_lines(seed: int, count: int) -> list[Line]:
    """The first `count` lines of the other commands in the order of the seed; `RUN` must be there."""
    variants = [
        _variant("resume_training", (RUN,), {}),
        _variant("train_from_params", (f"{RUN}/trainer_params.json",), OUTPUT),
        _variant("lav", ("--export_dir", MODEL), {}),
        _variant("multi_lav", ("--export_dirs", MODEL, MODEL), {}),
        _variant("predict", ("--export_dir", MODEL), {}),
        _variant("evaluate", ("--scenario", MODEL), {"--prediction": ("numbers.jsonl",)}),
        _variant("replay_learning_rate", (RUN,), {}),
        _variant("preview_schedule", (TINY,), {"--trainer.epochs": ("3",)}),
        _variant("benchmark_input_pipeline", (TINY,), {"--time_limit": ("0.1",)}),
    ]
    options = {
        "export": ("--format", "--check", "--batch_size", "--tolerance", "--out", "--trust"),
        "lav": ("--export_dir", "--out", "--dump", "--dump_inputs", "--tensorboard", "--run_eagerly", "--trust"),
        "multi_lav": ("--export_dirs", "--out", "--dump"),
        "predict": ("--export_dir", "--dump", "--dump_inputs", "--trust"),
        "evaluate": ("--scenario", "--prediction", "--out", "--trust"),
        "replay_learning_rate": ("--png", "--trust"),
        "preview_schedule": ("--png",),
        "benchmark_input_pipeline": ("--time_limit",),
        "resume_training": ("--trust",),
        "train_from_params": ("--trust",),
    }
    starts = {variant.command: variant for variant in variants}
    for command, flags in options.items():
        start, base = (MODEL,), tuple[tuple[str, tuple[str, ...]], ...]()
        if command in starts:
            start, base = starts[command].start, starts[command].base
        variants.append(Variant(command, start, base, flags))
    return _in_order(seed, count, variants)


def _classes() -> Iterator[Flags]:
    """Flags that choose each class that can be chosen, and what it needs."""
    function = ("test.support.fuzz.rates:constant",)
    for optimizer in OPTIMIZERS:
        yield {"--optimizer": (optimizer.__name__,)}
    for rule in SCHEDULES:
        needs = {"--learning_rate.function": function} if rule.__name__ == "FunctionParams" else {}
        yield {"--learning_rate": (rule.__name__,), **needs}
    for modulation in MODULATIONS:
        flag = "--learning_rate.modulation"
        needs = {f"{flag}.function": function} if modulation.__name__ == "FunctionModulationParams" else {}
        yield {flag: (modulation.__name__,), **needs}
    group = {"--optimizer.groups": ("OptimizerGroup",), "--optimizer.groups.0.match": (".*",)}
    yield group
    yield {**group, "--optimizer.groups.0.optimizer": ("SGD",)}
    yield {"--data.pre_proc": ("Composed",)}
    jitter = "test.support.tiny.scenario:Jitter"
    yield {"--data.pre_proc.processors": (jitter, jitter)}


def _variant(command: str, start: tuple[str, ...], base: Flags, known: Set[str] = frozenset()) -> Variant:
    """Ask `--print_config` for the flags; those in `known` are tried elsewhere."""
    flags = [word for flag, words in base.items() for word in (flag, *words)]
    result = run_here(MAINS[command], [*start, *flags, "--print_config"])
    if result.rc != 0:
        raise AssertionError(f"{command} {start} {flags}: {result.stderr}{result.escaped}")
    listed = [f"--{key}" for key in yaml.safe_load(result.stdout) or ()]
    return Variant(command, start, tuple(base.items()), tuple(flag for flag in listed if flag not in known))


def _in_order(seed: int, count: int, variants: Sequence[Variant]) -> list[Line]:
    """Each flag with one value, then each with a second one, and so on."""
    rng = random.Random(seed)  # noqa: S311
    values = [(word,) for word in WORDS] + [tuple(words) for words in SEVERAL]
    streams = [
        [_line(rng, variant, flag, words) for words in rng.sample(values, len(values))]
        for variant in variants
        for flag in variant.flags
    ]
    stray = _stray_lines(variants, values)
    rng.shuffle(streams)
    rng.shuffle(stray)
    # An eighth of the lines is odd in another way than by the value of a flag.
    found: list[Line] = []
    for number in range(len(values)):
        share = len(streams) // 8
        found += [stream[number] for stream in streams] + stray[number * share : (number + 1) * share]
    return found[:count]


def _stray_lines(variants: Sequence[Variant], values: Sequence[tuple[str, ...]]) -> list[Line]:
    """Odd words where the first argument or a flag is expected, odd config files, and flags given twice."""
    found: list[Line] = []
    for variant in {variant.command: variant for variant in reversed(variants)}.values():
        command, start, base = variant.command, variant.start, variant.base
        found += [Line(command, start, base, "", words) for words in values]
        found += [Line(command, start, base, "", (flag, *words)) for flag in FLAGS for words in ((), ("x", "1"))]
        found += [Line(command, (*start[:-1], *words), base, "", ()) for words in values]
        found += [Line(command, start, base, "--config", words) for words in values]
        found += [Line(command, start, base, "", (flag, "1", flag, "1")) for flag in variant.flags]
    return found


def _line(rng: random.Random, variant: Variant, flag: str, words: tuple[str, ...]) -> Line:
    looks_like_a_flag = len(words) == 1 and words[0].startswith("-") and rng.random() < 0.7
    joined = len(words) == 1 and (looks_like_a_flag or rng.random() < 0.3)
    return Line(variant.command, variant.start, variant.base, flag, words, joined)
