"""The rows of the table of faults (`test/fault_table.py`)."""

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
# The renames that begin and end the writing of a checkpoint have these arguments.
SECOND_CHECKPOINT = ("os.rename", r"/epoch_0002 ")


class Expected(Enum):
    """How a training ends."""

    STOPS = "with exit code 1 and an error"
    GOES_ON = "with exit code 0"
    KILLED = "by SIGKILL"
    STOPPED = "with the exit code of the signal and one line"


STOPS, GOES_ON, KILLED, STOPPED = Expected


@dataclass(frozen=True)
class Row:
    """One fault: the place that it hits, what it is, how the training ends, and part of what it prints then.

    Args:
        env: variables of the command, with `{run}` for its directory.
        faults: arguments of `fault`.
        at: audit event and pattern at which the training is stopped for `act`. None: when a worker hangs.
        act: called with the directory of the run and the process.
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
        return found + result.stderr.splitlines()

    def differences(self, result: CommandResult) -> Iterator[str]:
        """Name what the training did otherwise than expected."""
        codes = {STOPS: 1, GOES_ON: 0, KILLED: -signal.SIGKILL}
        code = 128 + getattr(signal, self.fault) if self.expected is STOPPED else codes[self.expected]
        lines = self.lines(result)
        if result.rc != code:
            yield f"ended otherwise than {self.expected.value}: {result}"
        if "Traceback" in result.stdout + result.stderr:
            yield f"printed a traceback: {result}"
        if self.text and not any(self.text in line for line in lines):
            yield f"did not print {self.text!r}: {lines}"
        errors = [line for line in lines if not line.startswith("warning: ")]
        if self.expected is STOPPED:
            if [line.startswith(f"{self.fault}: stopped") for line in lines] != [True]:
                yield f"expected one line of a stop: {result}"
        elif len(errors) > MAX_ERROR_LINES * (self.expected is STOPS):
            yield f"printed more than an error: {errors}"


def run_tool(*words: str | Path) -> None:
    """Run a tool of the system, which must succeed."""
    subprocess.run([*map(str, words)], check=True)


FIRST, LATE = "checkpoint/epoch_0001", " cannot be written: "
# Place; system calls that fail on paths with this part once this path of the run exists; how it ends.
DISK: list[tuple[int, str, str, str, str, Expected, str]] = [
    *(
        (number, place, calls, part, FIRST, STOPS, written + LATE + os.strerror(number))
        for number, calls in ((errno.EIO, "write"), (errno.EDQUOT, "write"), (errno.EACCES, "open,mkdir,rename"))
        for place, part, written in (
            ("checkpoint", "epoch_0002", "epoch_0002"),
            ("best model", ".tmp-best", ""),
            ("history", "history.json", "history.json"),
        )
    ),
    (errno.EIO, "params", "write", "trainer_params", "", STOPS, f"trainer_params.json{LATE}"),
    (errno.EIO, "checkpoint", "sync", "epoch_0002", FIRST, STOPS, f"epoch_0002{LATE}"),
    (errno.EIO, "checkpoint", "rename", "/epoch_0002", FIRST, STOPS, f"epoch_0002{LATE}"),
    (errno.EIO, "best model", "rename", "/best", FIRST, STOPS, f"best{LATE}"),
    (errno.EIO, "final export", "write", "export", FIRST, STOPS, "/export/"),
    (errno.EIO, "retention", "rename", "/.tmp-epoch_0001", FIRST, STOPS, "epoch_0001 cannot be removed"),
    (errno.EACCES, "log", "open", "train.log", "", STOPS, f"train.log{LATE}"),
    (errno.EIO, "log", "write", "train.log", FIRST, GOES_ON, f"train.log{LATE}"),
    (errno.EIO, "events", "write", "events.out", FIRST, GOES_ON, "TensorBoard will not show all of epoch 2"),
    (errno.EACCES, "events", "open,mkdir", "/run/train/", "", GOES_ON, "TensorBoard will not show all of epoch 1"),
]


def disk_row(number: int, place: str, calls: str, part: str, after: str, expected: Expected, text: str) -> Row:
    """A row of `DISK`."""
    env = {"TFAIP_TEST_DISK": f"{number} {calls} {part} {{run}}/{after}"}
    row = Row(place, f"{errno.errorcode[number]} ({calls})", expected, text, env, needs="shim")
    return replace(row, flags=("--trainer.keep_checkpoints", "2")) if place == "retention" else row


def _read_only(run: Path, process: int) -> None:
    """Mount the directory again, read-only; only files that are open stay writable."""
    run_tool("mount", "--bind", run, run)
    run_tool("mount", "-o", "remount,bind,ro", run)


def _permit(run: Path, mode: int) -> None:
    for directory in (run, run / "checkpoint"):
        directory.chmod(mode)


def _kill(run: Path, process: int) -> None:
    os.kill(process, signal.SIGKILL)


NO_SPACE = "No space left on device"
# Called in the middle of the run, and before it is resumed.
MID_RUN: list[tuple[str, str, str, Callable[[Path, int], None], Callable[[Path], None] | None]] = [
    ("mounted read-only", "Read-only file system", "mount", _read_only, lambda run: run_tool("umount", "-l", run)),
    (
        "permission taken (chmod 500)",
        *("Permission denied", "mount", lambda run, _: _permit(run, 0o500), lambda run: _permit(run, 0o755)),
    ),
    ("deleted", "was removed or replaced", "", lambda run, _: shutil.rmtree(run), None),
]
SYSTEM = [
    *(
        Row("run directory", f"ENOSPC: a disk of {share:.0%} of the run", STOPS, NO_SPACE, share=share, needs="mount")
        for share in (0.02, 0.15, 0.35, 0.6, 0.9)
    ),
    *(
        Row("run directory", f"{what} in mid-run", STOPS, text, at=SECOND_CHECKPOINT, act=act, after=after, needs=needs)
        for what, text, needs, act, after in MID_RUN
    ),
    *(
        Row("run directory", f"called {name[:30]!r}", GOES_ON, name=name)
        for name in ("with  spaces and 'quotes'", "größe-数-\u202e", "n" * 200, "%s {run} $HOME")
    ),
]


def _cover_shared_memory(options: str) -> None:
    run_tool("mount", "-t", "tmpfs", "-o", options, "none", SHARED_MEMORY)
    if "mode" not in options:
        (SHARED_MEMORY / "full").write_bytes(bytes(4096))


IN_SAMPLE = ("tiny.sample", "training", 5)
TIMEOUT = ["--train.worker_timeout_s", "2"]
# Fault and action of a worker, how the training ends, and flags.
OF_WORKERS: list[tuple[str, str, Expected, str, list[str]]] = [
    ("killed", "SIGKILL", STOPS, "was killed by SIGKILL (was there enough memory?)", []),
    ("stopped", "SIGSTOP", STOPS, "has not finished a sample for 2 s", TIMEOUT),
    ("hangs", "HANG", STOPS, "has not finished a sample for 2 s", TIMEOUT),
    ("exits", "EXIT", STOPS, "ended with exit code 3", []),
    ("prints", "PRINT", GOES_ON, "", []),
    ("forks a child", "FORK", GOES_ON, "", []),
]
WORKER = [
    *(
        Row("worker", fault, expected, text, flags=[*WORKERS, *flags], faults=[(f"worker {action}", *IN_SAMPLE)])
        for fault, action, expected, text, flags in OF_WORKERS
    ),
    *(
        Row("worker", f"{action} in a sample", STOPS, action, flags=WORKERS, faults=[(f"worker {action}", *IN_SAMPLE)])
        for action in ("ValueError", "StopIteration")
    ),
    Row("training process", "SIGKILL", KILLED, flags=WORKERS, at=("tiny.sample", "evaluation"), act=_kill),
    Row(
        *("training process", "SIGKILL while its workers hang", KILLED),
        flags=WORKERS,
        faults=[("worker HANG", "tiny.sample", "training", 30)],
        act=_kill,
    ),
    *(
        Row(
            *("shared memory", f"{SHARED_MEMORY} is {fault}", GOES_ON),
            flags=WORKERS,
            before=lambda _, options=options: _cover_shared_memory(options),  # type: ignore[misc]
            after=lambda _: run_tool("umount", "-l", SHARED_MEMORY),
            needs="mount",
        )
        for fault, options in (("full", "size=4k"), ("missing: not even root may look into it", "size=4k,mode=000"))
    ),
]


IN_STAGES = ["--stages", "first=Train", "--stages.first.epochs", "2", "--trainer.epochs", "3"]
WARM = ["--warmstart.model", "whole_0/best"]  # of the training without a fault
LAV = ["--trainer.lav_every_n", "1", "--trainer.lav_silent", "True"]
EXPORT = ["--scenario.export_serve", "True"]
PRELOAD = ["--trainer.preload_data", "True"]
# Phases of a training with their moments; it gets a signal in each.
PHASES: list[tuple[str, tuple[str, str, int], Sequence[str]]] = [
    ("import of the scenario", ("exec", r"tiny/scenario\.py", 1), ()),
    ("loading of the data (preload_data)", IN_SAMPLE, PRELOAD),
    ("start of a worker", ("subprocess.Popen", "", 1), WORKERS),
    ("trial export before the first epoch", ("tempfile.mkdtemp", "tfaip-export-", 1), EXPORT),
    ("warm start", ("open", r"whole_0/best/weights\.safetensors", 1), WARM),
    ("training", ("tiny.sample", "training", 60), ()),
    ("training, with workers", ("os.rename", r"/epoch_0001 ", 1), WORKERS),
    ("validation", ("tiny.sample", "evaluation", 5), ()),
    ("LAV of an epoch", ("tiny.sample", "evaluation", 15), LAV),
    ("best model", ("os.rename", r"/best ", 1), ()),
    ("checkpoint", (*SECOND_CHECKPOINT, 1), ()),
    ("history", ("os.rename", r"/history\.json ", 3), ()),
    ("change of the stage", ("os.rename", r"/epoch_0002 ", 1), IN_STAGES),
    ("second stage", ("os.rename", r"/epoch_0003 ", 1), IN_STAGES),
]


def signal_rows() -> Iterator[Row]:
    """Yield the rows of `PHASES`."""
    for place, event, flags in PHASES:
        is_own = flags in (WARM, LAV, IN_STAGES)
        for name in ("SIGTERM", "SIGINT") if place in ("training", "checkpoint") else ("SIGTERM",):
            yield Row(place, name, STOPPED, flags=[*KEEP_ALL, *flags], faults=[(name, *event)], is_own=is_own)
    # Nothing is left to be stopped: the model is exported, and the run is complete.
    yield Row("final export", "SIGTERM", GOES_ON, faults=[("SIGTERM", "os.rename", r"/export ", 1)])


ROWS = [*(disk_row(*row) for row in DISK), *SYSTEM, *WORKER, *signal_rows()]
