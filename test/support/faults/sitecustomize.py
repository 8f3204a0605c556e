"""Python imports this at start if its directory is on the path: faults at exact moments of a real process.

`TFAIP_TEST_FAULTS` is a JSON list of `[action, event, pattern, count]`: at the `count`-th audit event of that name
whose arguments match the pattern, the process sends itself the signal `action`, or with the action "HANG" the thread
prints HANGING and never goes on.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from typing import Any


def act(action: str) -> None:
    if action == "HANG":
        os.write(1, b"HANGING\n")
        threading.Event().wait()
    os.kill(os.getpid(), getattr(signal, action))


def watch(faults: list[tuple[str, str, str, int]]) -> None:
    """Install the audit hook: it sees renames, removals, opened files and what a scenario audits itself."""
    seen = [0] * len(faults)
    events = {event for _, event, _, _ in faults}

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event not in events:
            return
        text = " ".join(map(str, args))
        for i, (action, name, pattern, count) in enumerate(faults):
            if name == event and re.search(pattern, text):
                seen[i] += 1
                if seen[i] == count:
                    act(action)

    sys.addaudithook(hook)


if "TFAIP_TEST_FAULTS" in os.environ:
    watch(json.loads(os.environ["TFAIP_TEST_FAULTS"]))
