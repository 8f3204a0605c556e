"""The rows of the table of faults (`test/fault_table.py`)."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from test.support.commands import CommandResult
from test.support.leaks import SHARED_MEMORY

# What the error of a training that was stopped by one may take: it, and the line of the user's code.
MAX_ERROR_LINES = 2
KEEP_ALL = ("--trainer.keep_checkpoints", "9")
WORKERS = ("--train.num_processes", "2")
# Three tasks of four samples.
LEAK, MAX_KEPT = "a processor that keeps 16 MB of each sample; max_tasks_per_process 3", 12
# The renames that begin and end the writing of a checkpoint have these arguments.
SECOND_CHECKPOINT = ("os.rename", r"/epoch_0002 ")


class Expected(Enum):
    """How a training ends."""

    STOPS = "with exit code 1 and an error"
    GOES_ON = "with exit code 0"
    KILLED = "by SIGKILL"
    STOPPED = "with the exit code of the signal and one line"


@dataclass(frozen=True)
class Row:
    """One fault.

    Args:
        place: what it hits.
        fault: what it is.
        expected: how the training ends.
        text: part of what it prints then.
        env: variables of the command, with `{run}` for its directory.
        flags: of the command.
        faults: arguments of `fault`.
        act: called with the directory of the run and the process, at the moment `at`.
        at: audit event and pattern; the training is stopped at it. None: when a worker hangs.
        before: called with the directory of the run at the beginning.
        after: called with it before the run is resumed.
        share: of the space that a whole run needs, which its disk has.
        is_own: compared with a training of its own flags, instead of the usual one.
        name: of the directory of the run.
        needs: "mount", "shim" or nothing.
    """

    place: str
    fault: str
    expected: Expected
    text: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    flags: Sequence[str] = KEEP_ALL
    faults: Sequence[tuple[str, str, str, int]] = ()
    at: tuple[str, str] | None = None
    act: Callable[[Path, int], None] | None = None
    before: Callable[[Path], None] | None = None
    after: Callable[[Path], None] | None = None
    share: float | None = None
    is_own: bool = False
    name: str = ""
    needs: str = ""

    def lines(self, result: CommandResult) -> list[str]:
        """Return the errors and the warnings of a training, and what it says of a signal."""
        found = [line for line in result.stdout.splitlines() if line.startswith(("warning: ", "SIG"))]
        return found + [line for line in result.stderr.splitlines() if not line.startswith("LEAKED")]

    def differences(self, result: CommandResult) -> Iterator[str]:
        """Name what the training did otherwise than expected."""
        codes = {Expected.STOPS: 1, Expected.GOES_ON: 0, Expected.KILLED: -signal.SIGKILL}
        if self.expected is Expected.STOPPED:
            codes[self.expected] = 128 + getattr(signal, self.fault)
        lines = self.lines(result)
        if result.rc != codes[self.expected]:
            yield f"ended otherwise than {self.expected.value}: {result}"
        if "Traceback" in result.stdout + result.stderr:
            yield f"printed a traceback: {result}"
        if self.text and not any(self.text in line for line in lines):
            yield f"did not print {self.text!r}: {lines}"
        errors = [line for line in lines if not line.startswith("warning: ")]
        kept = [int(line.split()[2]) for line in result.stderr.splitlines() if line.startswith("LEAKED")]
        if self.fault == LEAK and not 0 < max(kept, default=0) <= MAX_KEPT:
            yield f"a process kept {max(kept, default=0)} samples, expected {MAX_KEPT} at most"
        if self.expected is Expected.STOPPED:
            if [line.startswith(f"{self.fault}: stopped") for line in lines] != [True]:
                yield f"expected one line of a stop: {result}"
        elif len(errors) > MAX_ERROR_LINES * (self.expected is Expected.STOPS):
            yield f"printed more than an error: {errors}"


def run_tool(*words: str | Path) -> None:
    """Run a tool of the system, which must succeed."""
    subprocess.run([*map(str, words)], check=True)


def _disk(number: int, place: str, calls: str, part: str, after: str, expected: Expected, text: str) -> Row:
    """A row in which system calls on paths with `part` fail once the path `after` of the run exists."""
    env = {"TFAIP_TEST_DISK": f"{number} {calls} {part} {{run}}/{after}"}
    fault = f"{errno.errorcode[number]} ({calls.replace(',', ', ')})"
    return Row(place, fault, expected, text, env, needs="shim")


def _disk_rows() -> Iterator[Row]:
    first = "checkpoint/epoch_0001"
    stops, goes_on = Expected.STOPS, Expected.GOES_ON
    for number in (errno.EIO, errno.EDQUOT, errno.EACCES):
        calls = "write" if number in (errno.EIO, errno.EDQUOT) else "open,mkdir,rename"
        text = os.strerror(number)
        for place, part, written in (
            ("checkpoint", "epoch_0002", "epoch_0002 cannot be written: "),
            ("best model", ".tmp-best", " cannot be written: "),
            ("history", "history.json", "history.json cannot be written: "),
        ):
            yield _disk(number, place, calls, part, first, stops, written + text)
    yield _disk(errno.EIO, "params", "write", "trainer_params", "", stops, "trainer_params.json cannot be written: ")
    yield _disk(errno.EIO, "checkpoint", "sync", "epoch_0002", first, stops, "epoch_0002 cannot be written: ")
    yield _disk(errno.EIO, "checkpoint", "rename", "/epoch_0002", first, stops, "epoch_0002 cannot be written: ")
    yield _disk(errno.EIO, "best model", "rename", "/best", first, stops, "best cannot be written: ")
    yield _disk(errno.EIO, "latest", "write", "latest", first, stops, "latest cannot be written: ")
    yield _disk(errno.EIO, "final export", "write", "export", first, stops, "/export/")
    removal = _disk(errno.EIO, "retention", "rename", "/.tmp-epoch_0001", first, stops, "epoch_0001 cannot be removed")
    yield replace(removal, flags=("--trainer.keep_checkpoints", "2"))
    yield _disk(errno.EACCES, "log", "open", "train.log", "", stops, "train.log cannot be written: ")
    yield _disk(errno.EIO, "log", "write", "train.log", first, goes_on, "train.log cannot be written: ")
    yield _disk(errno.EIO, "events", "write", "events.out", first, goes_on, "TensorBoard will not show all of epoch 2")
    yield _disk(
        errno.EACCES, "events", "open,mkdir", "/run/train/", "", goes_on, "TensorBoard will not show all of epoch 1"
    )


def _read_only(run: Path, process: int) -> None:
    """Mount the directory again, read-only; only files that are open stay writable."""
    run_tool("mount", "--bind", run, run)
    run_tool("mount", "-o", "remount,bind,ro", run)


def _writable(run: Path) -> None:
    run_tool("umount", "-l", run)


def _system_rows() -> Iterator[Row]:
    stops = Expected.STOPS
    for share in (0.02, 0.15, 0.35, 0.6, 0.9):
        fault = f"ENOSPC: a disk of {share:.0%} of what the run takes"
        yield Row("run directory", fault, stops, "No space left on device", share=share, needs="mount")
    text = "Read-only file system"
    yield Row(
        *("run directory", "mounted read-only in mid-run", stops, text),
        **{"at": SECOND_CHECKPOINT, "act": _read_only, "after": _writable, "needs": "mount"},
    )
    yield Row(
        *("run directory", "permission taken in mid-run (chmod 500)", stops, "Permission denied"),
        **{"at": SECOND_CHECKPOINT, "act": _no_permission, "after": _permission, "needs": "mount"},
    )
    yield Row(
        *("run directory", "deleted in mid-run", stops, "No such file or directory"),
        **{"at": SECOND_CHECKPOINT, "act": lambda run, _: shutil.rmtree(run)},
    )
    for name in ("with  spaces and 'quotes'", "größe-数-\u202e", "n" * 200, "%s {run} $HOME"):
        yield Row("run directory", f"called {name[:30]!r}", Expected.GOES_ON, name=name)
    clock = {"TFAIP_TEST_CLOCK": "-86400 {run}/checkpoint/epoch_0001"}
    yield Row("clock", "set back by a day in mid-run", Expected.GOES_ON, env=clock, needs="shim")
    yield Row(
        *("clock", "set back by a day, then a stop of the disk", stops, "epoch_0003 cannot be written"),
        {**clock, "TFAIP_TEST_DISK": f"{errno.EIO} write epoch_0003 {{run}}/checkpoint/epoch_0002"},
        needs="shim",
    )


def _no_permission(run: Path, process: int) -> None:
    for directory in (run, run / "checkpoint"):
        directory.chmod(0o500)


def _permission(run: Path) -> None:
    for directory in (run, run / "checkpoint"):
        directory.chmod(0o755)


def _kill(run: Path, process: int) -> None:
    os.kill(process, signal.SIGKILL)


def _worker(fault: str, action: str, event: str, pattern: str, expected: Expected, text: str, *flags: str) -> Row:
    faults = [(f"worker {action}", event, pattern, 5 if event == "tiny.sample" else 1)]
    return Row("worker", fault, expected, text, flags=[*WORKERS, *flags], faults=faults)


def _worker_rows() -> Iterator[Row]:
    stops, goes_on = Expected.STOPS, Expected.GOES_ON
    timeout = ["--train.worker_timeout_s", "2"]
    for fault, action, expected, text, flags in (
        ("killed", "SIGKILL", stops, "was killed by SIGKILL (was there enough memory?)", []),
        ("stopped", "SIGSTOP", stops, "has not finished a sample for 2 s", timeout),
        ("hangs", "HANG", stops, "has not finished a sample for 2 s", timeout),
        ("exits", "EXIT", stops, "ended with exit code 3", []),
        ("prints", "PRINT", goes_on, "", []),
        ("forks a child", "FORK", goes_on, "", []),
    ):
        yield _worker(fault, action, "tiny.sample", "training", expected, text, *flags)
    for action in ("ValueError", "SystemExit", "KeyboardInterrupt", "StopIteration"):
        for where, event, pattern in (
            ("in a sample", "tiny.sample", "training"),
            ("in an import", "import", r"^tiny\.scenario "),
        ):
            yield _worker(f"{action} {where}", action, event, pattern, stops, action)
        faults = [(action, "tiny.sample", "training", 5)]
        yield Row("data, without workers", f"{action} in a sample", stops, action, faults=faults)
    leak = ["--data.pre_proc.max_tasks_per_process", "3"]
    yield Row(
        *("worker", LEAK, goes_on), flags=[*WORKERS, *leak], faults=[("worker LEAK", "tiny.sample", "training", 1)]
    )
    in_sample = ("tiny.sample", "evaluation")
    yield Row("training process", "SIGKILL", Expected.KILLED, flags=WORKERS, at=in_sample, act=_kill)
    yield Row(
        *("training process", "SIGKILL while its workers hang", Expected.KILLED),
        flags=WORKERS,
        faults=[("worker HANG", "tiny.sample", "training", 30)],
        act=_kill,
    )
    for fault, options in (("full", "size=4k"), ("missing: not even root may look into it", "size=4k,mode=000")):
        yield Row(
            *("shared memory", f"{SHARED_MEMORY} is {fault}", goes_on),
            flags=WORKERS,
            before=lambda _, options=options: _cover_shared_memory(options),  # type: ignore[misc]
            after=lambda _: run_tool("umount", "-l", SHARED_MEMORY),
            needs="mount",
        )


def _cover_shared_memory(options: str) -> None:
    run_tool("mount", "-t", "tmpfs", "-o", options, "none", SHARED_MEMORY)
    if "mode" not in options:
        (SHARED_MEMORY / "full").write_bytes(bytes(4096))


def _signal_rows() -> Iterator[Row]:
    """Rows in which the training gets a signal in each of its phases."""
    stages = ["--stages", "first=Train", "--stages.first.epochs", "2", "--trainer.epochs", "3"]
    warm = ["--warmstart.model", "whole_0/best"]  # of the training without a fault
    lav = ["--trainer.lav_every_n", "1", "--trainer.lav_silent", "True"]
    phases: list[tuple[str, tuple[str, str, int], Sequence[str]]] = [
        ("import of the scenario", ("exec", r"tiny/scenario\.py", 1), ()),
        ("loading of the data (preload_data)", ("tiny.sample", "training", 5), ["--trainer.preload_data", "True"]),
        ("start of a worker", ("subprocess.Popen", "", 1), WORKERS),
        (
            "trial export before the first epoch",
            ("tempfile.mkdtemp", "tfaip-export-", 1),
            ["--scenario.export_serve", "True"],
        ),
        ("warm start", ("open", r"whole_0/best/weights\.safetensors", 1), warm),
        ("training", ("tiny.sample", "training", 60), ()),
        ("training, with workers", ("os.rename", r"/epoch_0001 ", 1), WORKERS),
        ("validation", ("tiny.sample", "evaluation", 5), ()),
        ("LAV of an epoch", ("tiny.sample", "evaluation", 15), lav),
        ("best model", ("os.rename", r"/best ", 1), ()),
        ("checkpoint", SECOND_CHECKPOINT + (1,), ()),
        ("history", ("os.rename", r"/history\.json ", 3), ()),
        ("change of the stage", ("os.rename", r"/epoch_0002 ", 1), stages),
        ("second stage", ("os.rename", r"/epoch_0003 ", 1), stages),
    ]
    for place, event, flags in phases:
        for name in ("SIGTERM", "SIGINT") if place in ("training", "checkpoint") else ("SIGTERM",):
            is_own = flags in (warm, lav, stages)
            yield Row(place, name, Expected.STOPPED, flags=[*KEEP_ALL, *flags], faults=[(name, *event)], is_own=is_own)
    # Nothing is left to be stopped: the model is exported, and the run is complete.
    yield Row("final export", "SIGTERM", Expected.GOES_ON, faults=[("SIGTERM", "os.rename", r"/export ", 1)])


ROWS = [*_disk_rows(), *_system_rows(), *_worker_rows(), *_signal_rows()]
