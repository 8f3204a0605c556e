"""Let real trainings meet faults of the disk and the workers, and signals; print a table in Markdown.

    python -m test.fault_table [--backend tensorflow] [--only disk] [--list]

A row is a training as a process of its own that meets one fault. It must end, or go on, as the row says, with one line
of an error at most; every checkpoint that is left must be that of the training without a fault, byte for byte, and so
must be what the run ends with after the fault is over and it is resumed (or begun again, if there was no checkpoint).

Where it is allowed, the table is made in a mount namespace of its own, where disks are mounted that are full or
read-only, and without the right of root to write everywhere. What cannot be asked of a system (errors of a device, a
quota) is done between Python and the C library by `support/faults.c`, which needs gcc. Rows that the system
does not allow, or for which a tool is missing, are named and left out; with the variable CI set a missing tool is an
error. Ends with exit code 1 if any row is not as expected.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from test.support.commands import (
    VARIABLES,
    CommandResult,
    Process,
    environment,
    finish_command,
    group_ended,
    kill_group,
    start_command,
)
from test.support.faultrows import KEEP_ALL, ROWS, Expected, Row, run_tool
from test.support.processes import read_if_there
from test.support.runs import checkpoints, copy_tiny, fault, faulty, final_state
from test.support.warm.client import allow_servers

SOURCE = Path(__file__).resolve().parent / "support" / "faults.c"
INSIDE = "TFAIP_TEST_MOUNTS"
FLAGS = ["--trainer.random_seed", "7"]
# Workers of a killed training end within this time.
WORKERS_END_S = 2.0
STOPPED = "T"
WAIT_S = 120.0
PAGE = 4096
NO_TOOL = "there is no "


class Table:
    """Makes rows below a directory, which is empty."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._workplace = copy_tiny(directory)
        self._whole_of: dict[tuple[str, ...], Path] = {}
        self._usual = self._whole(KEEP_ALL)
        stats = [path.stat() for path in self._usual.rglob("*") if path.is_file()]
        sizes = {found.st_ino: found.st_size for found in stats}
        self._size = sum(-(-size // PAGE) * PAGE for size in sizes.values())

    def _whole(self, flags: Sequence[str]) -> Path:
        """Return the run of a training with these flags and without a fault."""
        run = self._whole_of.setdefault(tuple(flags), self._directory / f"whole_{len(self._whole_of)}")
        if not run.exists():
            result = finish_command(self._start(["train", "tiny", *flags], run), WAIT_S)
            if (result.rc, result.stderr) != (0, ""):
                raise RuntimeError(f"the training without a fault failed: {result}")
        return run

    def make(self, number: int, row: Row) -> tuple[list[str], list[str]]:
        """Make a row; returns its cells and what is wrong with it."""
        whole = self._whole(row.flags) if row.is_own else self._usual
        place = self._directory / f"row_{number:02d}"
        place.mkdir()
        run = place / (row.name or "run")
        with_mount = None
        if row.share is not None:
            with_mount = place / "disk"
            with_mount.mkdir()
            size = max(PAGE, int(row.share * self._size) // PAGE * PAGE)
            run_tool("mount", "-t", "tmpfs", "-o", f"size={size}", "none", with_mount)
            run = with_mount / "run"
        elif row.before is not None:
            row.before(run)
        try:
            result, wrong = self._meet(row, run)
            left, is_good = _left(run, whole)
            wrong += [] if is_good else ["a checkpoint that is left is not that of the training without a fault"]
            if with_mount is not None:
                run_tool("mount", "-o", f"remount,size={4 * self._size}", with_mount)
            if row.after is not None:
                row.after(run)
            resumed = self._resume(row, run, whole, result)
        finally:
            if with_mount is not None:
                run_tool("umount", "-l", with_mount)
        if not resumed.startswith("equal"):
            wrong.append(f"resumed: {resumed}")
        printed = " / ".join(dict.fromkeys(row.lines(result))).replace(str(run), "RUN").replace(str(place), "PLACE")
        printed = re.sub(r"process \d+", "process N", printed).replace("|", r"\|")
        return [row.place, row.fault, f"exit code {result.rc}: {printed}".removesuffix(": "), left, resumed], wrong

    def _meet(self, row: Row, run: Path) -> tuple[CommandResult, list[str]]:
        """Run the training into the fault; returns how it ended, and what is wrong with that."""
        env = {name: value.format(run=run) for name, value in row.env.items()}
        faults = [fault(*each) for each in row.faults]
        if row.at is not None:
            faults.append(fault("SIGSTOP", *row.at))
        env |= faulty(*faults) if faults else {}
        process = self._start(["train", "tiny", *row.flags], run, env)
        wrong = []
        if row.act is not None:
            if not (wait_until_hanging(process) if row.at is None else wait_until_stopped(process)):
                return finish_command(process, WAIT_S), ["the moment of the fault was never reached"]
            try:
                row.act(run, process.pid)
            finally:
                process.send_signal(signal.SIGCONT)
        if row.expected is Expected.KILLED:
            process.wait(WAIT_S)
            if not group_ended(process, WORKERS_END_S):
                kill_group(process)
                wrong.append(f"workers did not end within {WORKERS_END_S:g} s")
        result = finish_command(process, WAIT_S)
        return result, [*wrong, *row.differences(result)]

    def _resume(self, row: Row, run: Path, whole: Path, result: CommandResult) -> str:
        how = "equal"
        if result.rc != 0:
            how = "equal" if _complete(run) else "equal, begun again"
            command = ["resume_training", run] if _complete(run) else ["train", "tiny", *row.flags]
            more = [] if _complete(run) or not run.exists() else ["--overwrite"]
            again = finish_command(self._start([*command, *more], None if _complete(run) else run), WAIT_S)
            if (again.rc, again.stderr) != (0, ""):
                return f"failed: {again}"
        ours, theirs = final_state(run), final_state(whole)
        found = [name for name in theirs if ours[name] != theirs[name]]
        found += [str(path) for path in run.rglob(".tmp-*")]
        return ", ".join(found) + " differ" if found else how

    def _start(self, command: Sequence[str | Path], run: Path | None, env: dict[str, str] | None = None) -> Process:
        flags = [] if run is None else [*FLAGS, "--trainer.output_dir", run]
        # Processes that may meet faults sync their files.
        env = {"TFAIP_TEST_FAULTS": "[]", **(env or {})}
        return start_command(*command, *flags, cwd=self._workplace, env=env)


def _complete(run: Path) -> list[str]:
    """Names of the committed checkpoints."""
    names = checkpoints(run) if (run / "checkpoint").is_dir() else []
    return [name for name in names if name.startswith("epoch_") and any((run / "checkpoint" / name).iterdir())]


def _left(run: Path, whole: Path) -> tuple[str, bool]:
    """Name the checkpoints that are left, and tell whether they are those of the training without a fault.

    It has none within epochs; what a resume makes of these is compared.
    """
    names, good = _complete(run), True
    for name in names:
        ours, theirs = (place / "checkpoint" / name / "state.safetensors" for place in (run, whole))
        good = good and ours.is_file() and (not theirs.exists() or ours.read_bytes() == theirs.read_bytes())
    text = f"{names[0]} to {names[-1]}" if len(names) > 1 else "".join(names) or "no checkpoint"
    return text, good


def wait_until_stopped(process: Process) -> bool:
    """Wait until a process has stopped itself; False if it ended before, or takes too long."""
    end = time.monotonic() + WAIT_S
    while process.poll() is None and time.monotonic() < end:
        if read_if_there(f"/proc/{process.pid}/stat").rpartition(")")[2].split()[:1] == [STOPPED]:
            return True
        time.sleep(0.01)
    return False


def wait_until_hanging(process: Process) -> bool:
    """Wait until a process or its worker says that it hangs; False if it ended before."""
    assert process.stdout is not None
    return any(line == "HANGING\n" for line in iter(process.stdout.readline, ""))


def enter(argv: Sequence[str], directory: Path) -> list[str] | None:
    """Start this script again with mounts and the shared object, and return nothing; or return why that cannot be."""
    missing = []
    library = directory / "faults.so"
    if shutil.which("gcc") is None:
        missing.append(f"shim: {NO_TOOL}gcc")
    else:
        run_tool("gcc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl")
    prefix = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    # Root keeps what it owns, but no longer writes where nobody may.
    prefix += ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    probe = ["sh", "-c", f"mount -t tmpfs none '{directory}'"]
    tools = [tool for tool in ("unshare", "setpriv", "mount") if shutil.which(tool) is None]
    if tools or subprocess.run([*prefix, *probe], capture_output=True, check=False).returncode != 0:
        missing.append(f"mount: {NO_TOOL}{tools[0]}" if tools else "mount: this system allows no mount namespace")
        prefix = []
    env = {**os.environ, INSIDE: ";".join(missing)}
    if library.exists():
        env["LD_PRELOAD"] = str(library)
    command = [*prefix, sys.executable, "-m", "test.fault_table", *argv, "--directory", str(directory)]
    sys.exit(subprocess.run(command, env=env, check=False).returncode)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tensorflow", choices=["tensorflow", "jax"])
    parser.add_argument("--only", nargs="+", default=[], help="rows whose place or fault contains one of these texts")
    parser.add_argument("--list", action="store_true", help="name the rows only")
    parser.add_argument("--directory", type=Path, help="where to run (default: a temporary directory)")
    args = parser.parse_args(argv)
    rows = [row for row in ROWS if not args.only or any(text in f"{row.place}: {row.fault}" for text in args.only)]
    if args.list:
        print("\n".join(f"{row.place}: {row.fault}" for row in rows))
        return 0
    if INSIDE not in os.environ:
        directory = Path(tempfile.mkdtemp(prefix="fault-table-", dir=args.directory))
        try:
            enter(sys.argv[1:] if argv is None else argv, directory)
        finally:
            shutil.rmtree(directory)
    # A shell without a terminal starts commands in the background with Ctrl-C ignored, and all processes inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Here, not for each process: all can then be started warm.
    os.environ |= {**VARIABLES, "KERAS_BACKEND": args.backend, "PYTHONDONTWRITEBYTECODE": "1"}
    os.environ["XDG_STATE_HOME"] = str(args.directory / "state")
    allow_servers([environment()])
    missing = dict(text.split(": ") for text in os.environ[INSIDE].split(";") if text)
    return make_table(rows, missing, args.directory)


def make_table(rows: Sequence[Row], missing: dict[str, str], directory: Path) -> int:
    """Make and print the rows; returns the exit code."""
    table, failed, begun = Table(directory), 0, time.monotonic()
    cells = ["place", "fault", "printed", "checkpoints left", "resumed"]
    print(f"| {' | '.join(cells)} |\n|{'---|' * len(cells)}", flush=True)
    for number, row in enumerate(rows):
        if row.needs in missing:
            print(f"| {row.place} | {row.fault} | not made: {missing[row.needs]} | | |", flush=True)
            failed += "CI" in os.environ and missing[row.needs].startswith(NO_TOOL)
            continue
        made, wrong = table.make(number, row)
        print(f"| {' | '.join(made)} |", flush=True)
        for text in wrong:
            print(f"error: {row.place}, {row.fault}: {text}", file=sys.stderr, flush=True)
        failed += bool(wrong)
    print(f"\n{len(rows)} rows in {time.monotonic() - begun:.0f} s, {failed} not as expected")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
