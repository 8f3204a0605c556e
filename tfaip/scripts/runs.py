"""`tfaip-runs DIR`, `tfaip-runs compare RUN RUN`: what runs have reached, and in what they differ."""

import json
import math
import re
import sys
from itertools import takewhile
from pathlib import Path
from typing import Literal

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.util.terminal import print_table
from tfaip.util.text import shorten_text

PROG = "tfaip-runs"
ORDERS = ("name", "epoch", "best", "seconds")
USAGE = f"""usage: {PROG} DIR [DIR ...] [flags]
       {PROG} compare RUN RUN [RUN ...] [flags]

List the runs at and below directories: their states, epochs, best values and times, and the params
in which they differ. Or compare some runs side by side. Only the directories of the runs are read,
nothing is changed; runs may be training.

  --sort NAME  by name (default), epoch, best or seconds
  --json       print JSON: all params, and all values of the best epoch"""

# They are shown only if nothing else differs: what the table says anyway, and chance.
_SECONDARY = ("trainer.epochs", "learning_rate.epochs", "trainer.random_seed")
# Name of a class in JSON, but for that of the scenario.
_CLASS = re.compile(r'(?<!scenario_id": )"[A-Za-z_][\w.]*:([A-Z]\w*?)(?:Params|Optimizer)?"')


@command.entry_point(USAGE, "directory", choices={"--sort": list(ORDERS)})
def main(first: str, flags: list[str]) -> None:
    """List or compare runs."""
    from tfaip.params.commandline import ParamsParser
    from tfaip.trainer.tools.runs import find_runs, read_run

    words = [first, *takewhile(lambda word: not word.startswith("-"), flags)]
    parser = ParamsParser(PROG, "List or compare runs.")
    parser.add_option("--sort", type=Literal[ORDERS], default="name", help="Order of the runs")
    parser.add_option("--json", help="Print JSON")
    args = parser.parse(flags[len(words) - 1 :])
    compares = first == "compare"
    paths = dict.fromkeys(path for word in words[compares:] for path in find_runs(Path(word)))
    if compares and len(paths) < 2:
        raise UsageError(f"{PROG} compare needs two different runs or more, got {len(paths)}")
    runs = [read_run(path) for path in paths]
    if args.sort == "best":
        runs.sort(
            key=lambda run: math.inf if run["best"] is None else run["best"] * (-1 if run["mode"] == "max" else 1)
        )
    elif args.sort != "name":
        runs.sort(key=lambda run: run[args.sort])
    if args.json:
        # JSON has no NaN.
        print(json.dumps(json.loads(json.dumps(runs), parse_constant=lambda name: None), indent=2))
        return
    shown = [json.loads(_CLASS.sub(r'"\1"', json.dumps(run["params"]))) for run in runs]
    differing = []
    for flag in dict.fromkeys(flag for params in shown for flag in params):
        # In a list, which has columns for them, what only some classes have counts for runs with these.
        if len({repr(params.get(flag, "-")) for params in shown if compares or flag in params}) > 1:
            differing.append(flag)
    columns = []
    for title in ("run", "state", "epoch", "epochs", "monitor", "best", "best_epoch", "seconds"):
        values = ["-" if run[title] is None else run[title] for run in runs]
        texts = [f"{v:.5g}" if isinstance(v, float) and abs(v) < 10**5 else shorten_text(str(v), 160) for v in values]
        columns.append([title, *texts])
    for flag in [flag for flag in differing if flag not in _SECONDARY] or differing:
        values = [params.get(flag, "-") for params in shown]
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        columns.append([shorten_text(flag), *(shorten_text(text, 24) for text in texts)])
    header, *rows = columns if compares else zip(*columns, strict=True)
    print_table(header, rows)
    for run in runs:
        if run["problem"]:
            print(f"{shorten_text(run['run'], 160)}: {run['problem']}")


if __name__ == "__main__":
    sys.exit(main())
