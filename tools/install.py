"""Install this checkout with some extras into the environment of the interpreter, with one line of progress.

    .venv/bin/python tools/install.py tutorial jax

The messages of pip are in `install.log` in the environment; if it fails, the last ones are printed.
"""

import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

LOG = Path(sys.prefix) / "install.log"
SITE = Path(sysconfig.get_path("purelib"))
PIP = [sys.executable, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
# pip writes this line before the first package, and nothing more until the last one is installed.
CHOSEN = re.compile(r"^Installing collected packages: (.*)$", re.MULTILINE)
SHOWN_LINES = 15
POLL_S = 0.5
# Time between two lines where there is no terminal.
LINE_S = 20.0


def main() -> int:
    """Install and return the exit code of pip."""
    begin = shown = time.monotonic()
    before = count_installed()
    with LOG.open("wb") as log:
        command = [*PIP, "--editable", f".[{','.join(sys.argv[1:])}]"]
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)  # noqa: S603
    try:
        while process.poll() is None:
            time.sleep(POLL_S)
            now = time.monotonic()
            if sys.stdout.isatty():
                print(f"\r  {progress(before)}, {now - begin:.0f} s", end="\033[K", flush=True)
            elif now - shown >= LINE_S:
                print(f"  {progress(before)}, {now - begin:.0f} s", flush=True)
                shown = now
    except KeyboardInterrupt:
        process.wait()
        print("\ninterrupted: the next call takes the installation up again", file=sys.stderr)
        return 130
    start = "\r" if sys.stdout.isatty() else ""
    print(f"{start}  {count_installed()} packages in the environment, {time.monotonic() - begin:.0f} s")
    if process.returncode != 0:
        print(*read_log().splitlines()[-SHOWN_LINES:], f"error: pip failed, see {LOG}", sep="\n", file=sys.stderr)
    return process.returncode


def progress(before: int) -> str:
    """Return what pip is doing, as far as its messages and the installed packages show it."""
    text = read_log()
    if chosen := CHOSEN.search(text):
        return f"installing: {count_installed() - before} of {len(chosen[1].split(', '))}"
    return f"collecting: {len(re.findall('^Collecting ', text, re.MULTILINE))}"


def read_log() -> str:
    """Return the messages of pip so far."""
    return LOG.read_text(encoding="utf-8", errors="replace")


def count_installed() -> int:
    """Return the number of packages in the environment."""
    return len(list(SITE.glob("*.dist-info")))


if __name__ == "__main__":
    sys.exit(main())
