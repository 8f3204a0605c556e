"""Fuzz the command lines: `python -m test.fuzz_command_lines [--seed 1] [--lines 4000] [--train 150]`.

Every flag of some scenarios is tried with odd values, in this process. A line must be refused with exit code 2 and one
line of at most 300 characters, or accepted. A seeded part of the accepted ones is run, and must end right or with one
clear line. Nothing may be written outside of what the line names.
"""

import argparse
import contextlib
import hashlib
import importlib
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from test.support.commands import VARIABLES, CommandResult, environment, finish_command, start_command

if __name__ == "__main__":  # before a backend is imported
    os.environ |= {**VARIABLES, **os.environ}

from test.support.warm.client import allow_servers
from tfaip.trainer.optimizer import OPTIMIZERS
from tfaip.trainer.scheduler import MODULATIONS, SCHEDULES
from tfaip.util.text import shorten

MESSAGE_LIMIT = 300
INTERRUPTED = 130
RUN_S = 60
Main = Callable[[Sequence[str]], int]
Words = tuple[str, ...]
Flags = Mapping[str, Words]

# Odd values: what people mistype, what scripts leave empty, and what attackers try; the words of a text are values.
NUMBERS = "-1 0 1 2 3.7 -0.0 1e-320 1e400 nan inf -inf 1_000 0x10 1,5 ٣ 2147483648 -9223372036854775808"
PATHS = ".. ../x / /dev/zero /dev/null a/b ./ ~ tiny .tmp-x export @file $HOME `id`"
CODE = "os:system subprocess:run __main__:x builtins:eval tfaip.errors:UsageError nowhere.at.all:f :"
PATTERNS = "( [[ [[a] (a+)+$ (?i * .* \\ {epoch} { {0.__class__} %s%n a=b = =1 a=1e400"
DASHES = "- -- --- -x --trainer.epochs --= -1e5"
TEXTS = ["", "   ", "None", "null", "True", "no", "x" * 300, "z/" * 2000, "größe-日本語", "🦆", "a\tb\nc\r\x07"]
TEXTS += ["\x1b[31mred\x1b[0m", "\u202egnp.exe", "\udcff", "a: [1, b: *x", "!!python/object/apply:os.system [id]"]
JSON = ["[]", "{}", "[" * 3000, "[" * 2000 + "]" * 2000, "[1, 2", "[1e400, null]", '{"__cls__": "os:system"}']
WORDS = [*" ".join([NUMBERS, PATHS, CODE, PATTERNS, DASHES]).split(" "), *TEXTS, *JSON, "9" * 5000]
SEVERAL: list[Words] = [(), ("1", "2", "3"), ("1", "1"), ("a", "a"), ("a=1", "a=2"), ("0=1", "1=nan"), ("", "")]
VALUES = [*((word,) for word in WORDS), *SEVERAL, ("1",) * 500]
# Where a flag is expected.
OF_CLASSES = "--trainer.__class__ --trainer.__dict__ --optimizer.__cls__ --__cls__ --Trainer.epochs --trainer.epochs\0"
DASHED = "-- --= --=1 --. --trainer --trainer. --trainer..epochs --trainer.epochs.x --trainer.epoch --größe - -e 🦆"
OF_COMMANDS = "--help=x --print_config=x --dry_run=x --config --trust \x1b[31m --{epoch}"
ODD_FLAGS = [*" ".join([OF_CLASSES, DASHED, OF_COMMANDS]).split(" "), "--" + "x" * 5000, "--" + "a." * 3000]

TINY, LISTS, TUTORIAL = "test.support.tiny", "test.support.fuzz.lists_scenario", "tfaip.scenario.tutorial.full"
# Of a run of the tutorial, relative to the working directory.
RUN, MODEL = "stored/run", "stored/run/best"
OUTPUT = {"--trainer.output_dir": ("run",)}
# An epoch of few batches. A flag that is tried replaces what is here.
SHORT = {**OUTPUT, "--trainer.epochs": ("2",), "--trainer.samples_per_epoch": ("12",), "--trainer.random_seed": ("5",)}
OF_LISTS = {"--train.lists": ("numbers.txt",), "--val.lists": ("numbers.txt",)}
OF_TUTORIAL = {"--train.batch_size": ("4",), "--val.limit": ("8",), "--model.graph": ("MLP",)}
OF_TUTORIAL["--trainer.skip_model_load_test"] = ("True",)
# What a flag names is written.
TARGETS = ("--trainer.output_dir", "--trainer.history_file", "--out", "--dump", "--png", "--tensorboard")
# How many samples or units: the scenario of the test allocates them, whatever the machine has.
SIZES = ("--model.units", "--model.graph.units", "--train.samples", "--val.samples", "--data.samples")


@dataclass(frozen=True)
class Line:
    """One command line: what is tried comes after the flags of `base`; without `flag`, `words` are where one is."""

    command: str
    start: Words
    base: Flags
    flag: str = ""
    words: Words = ()
    joined: bool = False

    @property
    def argv(self) -> list[str]:
        """The arguments of the command."""
        argv = list(self.start)
        for flag, words in self.base.items():
            if flag != self.flag:
                argv += [flag, *words]
        if self.joined:
            return [*argv, f"{self.flag}={self.words[0]}"]
        return [*argv, *([self.flag] if self.flag else []), *self.words]

    @property
    def can_be_run(self) -> bool:
        """False if it asks for more memory than there is, or for hundreds of processes."""
        limit = 6 if self.flag in SIZES else 3 if self.flag.endswith((".num_processes", ".num_threads")) else None
        return limit is None or all(len(word) < limit for word in self.words)

    @property
    def targets(self) -> list[str]:
        """What the line may write."""
        named = list(self.words[:1]) if self.flag in TARGETS else []
        return ["run", *named, *(["stored"] if self.command in ("resume_training", "export") else [])]

    def __str__(self) -> str:
        classes = [word for flag, words in self.base.items() if flag not in SHORT for word in (flag, *words)]
        shown = [self.command, *self.start, *classes, "|", self.flag, *self.words]
        return " ".join(shorten(word, 60) for word in shown)


# A command line without odd words, and the flags that are tried with it.
Variant = tuple[Line, Sequence[str]]


def main_of(command: str) -> Main:
    """The function of a command."""
    main: Main = importlib.import_module(f"tfaip.scripts.{command}").main
    return main


def variant(command: str, start: Words, base: Flags, known: Sequence[str] = ()) -> Variant:
    """Ask `--print_config` for the flags; those in `known` are tried elsewhere."""
    line = Line(command, start, base)
    ended = run_here(main_of(command), [*line.argv, "--print_config"])
    assert ended.rc == 0, (line.argv, ended)
    flags = [f"--{key}" for key in yaml.safe_load(ended.stdout) or ()]
    return line, [flag for flag in flags if flag not in known]


def training_variants() -> Iterator[Variant]:
    """The scenarios, and the tiny one with every class that can be chosen."""
    tiny = variant("train", (TINY,), SHORT)
    yield from (tiny, variant("train", (LISTS,), {**SHORT, **OF_LISTS}))
    yield variant("train", (TUTORIAL,), {**SHORT, **OF_TUTORIAL})
    for classes in _classes():
        yield variant("train", (TINY,), {**SHORT, **classes}, tiny[1])


def _classes() -> Iterator[Flags]:
    """Flags that choose each class that can be chosen, and what it needs."""
    function, rates, modulations = (f"{LISTS}:constant",), "--learning_rate", "--learning_rate.modulation"
    yield from ({"--optimizer": (optimizer.__name__,)} for optimizer in OPTIMIZERS)
    for flag, classes in ((rates, SCHEDULES), (modulations, MODULATIONS)):
        for cls in classes:
            needs = {f"{flag}.function": function} if cls.__name__.startswith("Function") else {}
            yield {flag: (cls.__name__,), **needs}
    group = {"--optimizer.groups": ("OptimizerGroup",), "--optimizer.groups.0.match": (".*",)}
    yield from (group, {**group, "--optimizer.groups.0.optimizer": ("SGD",)}, {"--data.pre_proc": ("Composed",)})
    yield {"--data.pre_proc.processors": ("test.support.tiny.scenario:Jitter",) * 2}


# The other commands, what they need, and flags of their own; `RUN` must be there.
COMMANDS: list[tuple[str, Words, Flags, str]] = [
    ("resume_training", (RUN,), {}, "--trust"),
    ("train_from_params", (f"{RUN}/trainer_params.json",), OUTPUT, "--trust"),
    ("lav", ("--export_dir", MODEL), {}, "--export_dir --out --dump --dump_inputs --tensorboard --run_eagerly --trust"),
    ("multi_lav", ("--export_dirs", MODEL, MODEL), {}, "--export_dirs --out --dump"),
    ("predict", ("--export_dir", MODEL), {}, "--export_dir --dump --dump_inputs --trust"),
    (
        *("evaluate", ("--scenario", MODEL), {"--prediction": ("numbers.jsonl",)}),
        "--scenario --prediction --out --trust",
    ),
    ("replay_learning_rate", (RUN,), {}, "--trust"),
    ("preview_schedule", (TINY,), {"--trainer.epochs": ("3",)}, "--png"),
    ("benchmark_input_pipeline", (TINY,), {"--time_limit": ("0.1",)}, "--time_limit"),
]


def command_variants() -> Iterator[Variant]:
    """The other commands with the flags of their params, and with those of their own."""
    for command, start, base, flags in COMMANDS:
        yield variant(command, start, base)
        yield Line(command, start, base), flags.split()
    yield Line("export", (MODEL,), {}), ["--format", "--check", "--batch_size", "--tolerance", "--out", "--trust"]


def lines(rng: random.Random, count: int, variants: Iterable[Variant]) -> Iterator[Line]:
    """Yield lines: each flag with one value, then each with another one, and so on; some are odd in another way."""
    tried = [(start, flag) for start, flags in variants for flag in flags]
    while True:
        rng.shuffle(tried)
        for start, flag in tried:
            words = rng.choice(VALUES)
            joined = len(words) == 1 and rng.random() < (0.7 if words[0].startswith("-") else 0.3)
            yield replace(start, flag=flag, words=words, joined=joined)
            if rng.random() < 1 / 8:
                yield _stray_line(rng, start, flag, words)
            count -= 1
            if count <= 0:
                return


def _stray_line(rng: random.Random, start: Line, flag: str, words: Words) -> Line:
    """Odd words where the first argument or a flag is expected, an odd config file, or a flag that is given twice."""
    if rng.random() < 1 / 5:
        return replace(start, start=(*start.start[:-1], *words))
    odd = (rng.choice(ODD_FLAGS), *rng.choice([(), ("x", "1")]))
    flag, words = rng.choice([("", words), ("", odd), ("--config", words), ("", (flag, "1", flag, "1"))])
    return replace(start, flag=flag, words=words)


def run_here(main: Main, argv: Sequence[str]) -> CommandResult:
    """Run a command in this process; of an exception that leaves it the traceback is on stderr."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr), warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("always")  # what a user sees of warnings, as often as they come
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        try:
            rc = main(list(argv))
        except SystemExit as end:
            rc = end.code if isinstance(end.code, int) else 1
        except BaseException:
            rc = -1
            traceback.print_exc()
    return CommandResult(rc, stdout.getvalue(), stderr.getvalue())


def complaints(ended: CommandResult, may_fail: bool) -> list[str]:
    """What is wrong with the end of a command."""
    found: list[str] = []
    for text in (ended.stdout, ended.stderr):
        if (begin := text.find("Traceback")) >= 0:
            found.append(f"a traceback: {text[begin:]}")
    if ended.rc not in ((0, 1, 2, INTERRUPTED) if may_fail else (0, 2)):
        found.append(f"exit code {ended.rc}")
    stderr = ended.stderr.splitlines()
    if ended.rc == 1 and len(stderr) == 2 and stderr[1].startswith("  in "):
        stderr.pop()  # the place in the code of a user
    errors = [line for line in stderr if line.startswith("error: ")]
    if ended.rc in (1, 2) and (len(errors) != 1 or len(stderr) != 1):
        found.append(f"{len(stderr)} lines on stderr, {len(errors)} of them errors")
    if ended.rc == 0 and stderr and not may_fail:
        found.append("something on stderr, but exit code 0")
    for line in errors:
        if len(line) > MESSAGE_LIMIT:
            found.append(f"a message of {len(line)} characters")
        if not line.isprintable():
            found.append("characters in the message that cannot be printed")
    return found


class Place:
    """A working directory in a directory that is watched, as it was after it was filled."""

    def __init__(self, root: Path, with_run: bool) -> None:
        self._root, self._original, self.work = root / "outer", root / "original", root / "outer" / "work"
        self.env = {"XDG_STATE_HOME": str(root / "state")}  # where records of what was typed are
        work = self._original / "work"
        work.mkdir(parents=True)
        (work / "numbers.txt").write_text("\n".join(f"{n} 1 2 {-n}" for n in range(20)))
        (work / "file").write_text("--trainer.epochs 3\n")
        (work / "numbers.jsonl").write_text('{"inputs": null}\n')
        if with_run:
            flags = {**SHORT, **OF_TUTORIAL, "--trainer.output_dir": (str(work / RUN),)}
            words = [word for flag, given in flags.items() for word in (flag, *given)]
            ended = finish_command(start_command("train", TUTORIAL, *words, cwd=work, env=self.env))
            assert ended.rc == 0, ended
        self._before = self._state(self._original)
        shutil.copytree(self._original, self._root)

    @staticmethod
    def _state(root: Path) -> dict[str, str]:
        found = {}
        for path in sorted(root.rglob("*")):
            content = path.read_bytes() if path.is_file() else b"no file"
            found[str(path.relative_to(root))] = hashlib.sha256(content).hexdigest()
        return found

    def changes(self, allowed: Sequence[str]) -> list[str]:
        """What appeared, changed or vanished outside of `allowed`; everything is as before then."""
        after, found = self._state(self._root), []
        if after == self._before:
            return []
        targets = [Path(os.path.abspath(self.work / name)) for name in allowed if "\0" not in name]
        for name in sorted({*self._before, *after}):
            path = self._root / name
            is_allowed = any(path == target or path in target.parents or target in path.parents for target in targets)
            if self._before.get(name) != after.get(name) and not is_allowed:
                found.append(f"{name} appeared, changed or vanished")
        shutil.rmtree(self._root)
        shutil.copytree(self._original, self._root)
        os.chdir(self.work)
        return found

    def run(self, line: Line) -> CommandResult:
        """Run a line in a process, which is interrupted after a minute."""
        process = start_command(line.command, *line.argv, cwd=self.work, env=self.env)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=RUN_S)
        if process.returncode is None:
            os.kill(process.pid, signal.SIGINT)
        return finish_command(process)


def fuzz(place: Place, generated: Iterator[Line], runs: int, rng: random.Random) -> int:
    """Resolve lines, and run some that are accepted; return the number of findings, which are printed."""
    wrong, count, begin, accepted = 0, 0, time.monotonic(), []

    def report(line: Line, ended: CommandResult, found: Sequence[str]) -> int:
        for complaint in found:
            print(f"{line}\n    {complaint}: {shorten(ended.stderr, 600)}", flush=True)
        return len(found)

    for line in generated:
        count += 1
        ended = run_here(main_of(line.command), [*line.argv, "--print_config"])
        wrong += report(line, ended, [*complaints(ended, may_fail=False), *place.changes([])])
        if ended.rc == 0 and line.can_be_run and not any("\0" in word for word in line.argv):
            accepted.append(line)
    print(f"{count} lines in {time.monotonic() - begin:.0f} s: {len(accepted)} accepted, {wrong} findings", flush=True)
    for line in rng.sample(accepted, min(runs, len(accepted))):
        ended = place.run(line)
        print(f"{line}: exit code {ended.rc} {ended.stderr.strip() if ended.rc else ''}", flush=True)
        wrong += report(line, ended, [*complaints(ended, may_fail=True), *place.changes(line.targets)])
    return wrong


def main() -> int:
    """Fuzz, print what is wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=4000, help="Command lines of tfaip-train to resolve")
    parser.add_argument("--train", type=int, default=150, help="Accepted ones to train")
    parser.add_argument("--others", type=int, default=1500, help="Command lines of the other commands to resolve")
    parser.add_argument("--run", type=int, default=50, help="Accepted ones to run")
    args = parser.parse_args()
    rng = random.Random(args.seed)  # noqa: S311
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        place = Place(Path(directory).resolve(), with_run=args.others > 0)
        os.chdir(place.work)
        os.environ.update(place.env)
        allow_servers([environment()])
        found = fuzz(place, lines(rng, args.lines, training_variants()), args.train, rng) if args.lines else 0
        if args.others:
            found += fuzz(place, lines(rng, args.others, command_variants()), args.run, rng)
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
