"""Command lines of `tfaip-train`: every flag of some scenarios, with every odd value, in a seeded order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from test.support.fuzz.session import run_here
from test.support.fuzz.values import FLAGS, SEVERAL, WORDS
from tfaip.scripts import train
from tfaip.trainer.optimizer import OPTIMIZERS
from tfaip.trainer.scheduler import MODULATIONS, SCHEDULES

OUTPUT = ("--trainer.output_dir", "run")
TINY, LISTS, TUTORIAL = "tiny", "lists_scenario", "tfaip.scenario.tutorial.full"
# An epoch of few batches. A fuzzed flag replaces what is here.
SHORT = {"--trainer.epochs": ("2",), "--trainer.samples_per_epoch": ("12",), "--trainer.random_seed": ("5",)}
LISTS_BASE = {"--train.lists": ("numbers.txt",), "--val.lists": ("numbers.txt",)}
TUTORIAL_BASE = {
    "--train.batch_size": ("4",),
    "--val.limit": ("8",),
    "--model.graph": ("MLP",),
    "--trainer.skip_model_load_test": ("True",),
}


@dataclass(frozen=True)
class Line:
    """One command line.

    Args:
        scenario: first argument.
        base: flags that make the run short, and choose classes.
        flag: what is tried, with dashes; empty: `words` come where a flag is expected.
        words: its values.
        joined: written as `--flag=value`.
    """

    scenario: str
    base: tuple[tuple[str, tuple[str, ...]], ...]
    flag: str
    words: tuple[str, ...]
    joined: bool = False

    @property
    def argv(self) -> list[str]:
        """The arguments of the command."""
        argv = [self.scenario]
        for flag, words in self.base:
            if flag != self.flag:
                argv += [flag, *words]
        if self.joined:
            return [*argv, f"{self.flag}={self.words[0]}"]
        return [*argv, *([self.flag] if self.flag else []), *self.words]

    @property
    def can_be_tried(self) -> bool:
        """False if it asks the model or the generator of the scenario for more memory than there is."""
        is_size = self.flag in ("--model.units", "--model.graph.units", "--train.samples", "--val.samples")
        return not (is_size and any(len(word) > 6 for word in self.words))

    @property
    def targets(self) -> list[Path]:
        """What the line may write."""
        named = {"--trainer.output_dir", "--trainer.history_file"}
        return [Path("run"), *(Path(word) for word in self.words[:1] if self.flag in named)]


@dataclass(frozen=True)
class Variant:
    """A scenario with some classes chosen, and the flags that are tried with them."""

    scenario: str
    base: tuple[tuple[str, tuple[str, ...]], ...]
    flags: tuple[str, ...]


def variants() -> list[Variant]:
    """Every scenario as it is, then one variant for each class that a flag of the tiny one can choose."""
    found: list[Variant] = []
    for scenario, base in ((TINY, {}), (LISTS, LISTS_BASE), (TUTORIAL, TUTORIAL_BASE)):
        found.append(_variant(scenario, {**SHORT, **base}, ()))
    known = set(found[0].flags)
    for choices in _choices():
        variant = _variant(TINY, {**SHORT, **choices}, known)
        if variant.flags:
            found.append(variant)
    return found


def _choices() -> Iterator[dict[str, tuple[str, ...]]]:
    for optimizer in OPTIMIZERS:
        yield {"--optimizer": (optimizer.__name__,)}
    for rule in SCHEDULES:
        chosen = {"--learning_rate": (rule.__name__,)}
        if rule.__name__ == "FunctionParams":
            chosen["--learning_rate.function"] = ("rates:constant",)
        yield chosen
    for modulation in MODULATIONS:
        chosen = {"--learning_rate.modulation": (modulation.__name__,)}
        if modulation.__name__ == "FunctionModulationParams":
            chosen["--learning_rate.modulation.function"] = ("rates:constant",)
        yield chosen
    yield {"--optimizer.groups": ("OptimizerGroup",), "--optimizer.groups.0.match": (".*",)}
    yield {
        "--optimizer.groups": ("OptimizerGroup",),
        "--optimizer.groups.0.match": (".*",),
        "--optimizer.groups.0.optimizer": ("SGD",),
    }
    yield {"--data.pre_proc": ("Composed",)}
    yield {"--data.pre_proc.processors": ("tiny.scenario:JitterParams", "tiny.scenario:JitterParams")}
    yield {"--learning_rate.rates": ("UpdateTime",)}


def _variant(scenario: str, base: dict[str, tuple[str, ...]], known: Sequence[str] | set[str]) -> Variant:
    """Ask `--print_config` for the flags; those in `known` are tried elsewhere."""
    flags = [word for flag, words in {**dict([(OUTPUT[0], OUTPUT[1:])]), **base}.items() for word in (flag, *words)]
    result = run_here(train.main, [scenario, *flags, "--print_config"])
    if result.rc != 0:
        return Variant(scenario, (), ())
    listed = [f"--{key}" for key in yaml.safe_load(result.stdout)]
    whole = {OUTPUT[0]: OUTPUT[1:], **base}
    return Variant(scenario, tuple(whole.items()), tuple(flag for flag in listed if flag not in known))


def lines(seed: int, count: int) -> list[Line]:
    """The first `count` lines in the order of the seed: each flag once, then each a second time, and so on."""
    rng = random.Random(seed)  # noqa: S311
    values = [(word,) for word in WORDS] + [tuple(words) for words in SEVERAL]
    streams = []
    for variant in variants():
        for flag in variant.flags:
            order = rng.sample(values, len(values))
            streams.append([_line(rng, variant, flag, words) for words in order])
    first = variants()[0]
    stray = [
        Line(first.scenario, first.base, "", (flag, *words)) for flag in FLAGS for words in ((), ("1",), ("x", "y"))
    ]
    stray += [Line(first.scenario, first.base, "", (word,)) for word in WORDS]
    stray += [Line(word, first.base, "", ()) for word in WORDS]
    stray += [Line(first.scenario, first.base, "--config", words) for words in values]
    stray += [Line(first.scenario, first.base, "", (flag, "1", flag, "1")) for flag in first.flags]
    rng.shuffle(stray)
    rng.shuffle(streams)
    found: list[Line] = []
    for number in range(len(values)):
        found += [stream[number] for stream in streams]
        found += stray[number * 8 : (number + 1) * 8]
        if len(found) >= count:
            break
    return found[:count]


def _line(rng: random.Random, variant: Variant, flag: str, words: tuple[str, ...]) -> Line:
    looks_like_a_flag = len(words) == 1 and words[0].startswith("-") and rng.random() < 0.7
    joined = len(words) == 1 and (looks_like_a_flag or rng.random() < 0.3)
    return Line(variant.scenario, variant.base, flag, words, joined)
