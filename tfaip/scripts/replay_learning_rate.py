"""`tfaip-replay-learning-rate RUN [flags]`: rates of other params with the scores of a run."""

import sys
from pathlib import Path

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.util.terminal import print_table

PROG = "tfaip-replay-learning-rate"
USAGE = f"""usage: {PROG} RUN [flags]

Show the learning rates that other params would have given with the scores of a finished training,
beside its own. RUN is the directory of a run, a history.json, or a learning_rate_file of RETURNN
(which is read, never executed).

  --learning_rate CLASS, --learning_rate.*  the params; of a run, the changes of its own ones
  --trust PKG [PKG ...]                     {command.TRUST}

{PROG} RUN --help shows the flags (--help all: every one)."""


@command.entry_point(USAGE, "run")
def main(name: str, flags: list[str]) -> None:
    """Show the learning rates of other params."""
    from tfaip.params.fields import COMMON
    from tfaip.params.settings import flags_of
    from tfaip.scripts.common.parser import CommandParser, load_trainer_params
    from tfaip.trainer.best import BestModel
    from tfaip.trainer.history import read_history
    from tfaip.trainer.run.directory import RunDirectory, find_run
    from tfaip.trainer.scheduler import SCHEDULES, ConstantParams, FeedbackParams, LearningRateParams
    from tfaip.trainer.tools.rates import replay

    trusted, flags = command.take_trusted(flags)
    stored, history_file = None, Path(name)
    if history_file.is_dir():
        directory = RunDirectory(find_run(history_file)[0])
        stored = load_trainer_params(directory.params_file, trusted)
        history_file = Path(stored.params.history_file or directory.history_file)
    history = read_history(history_file)
    default: LearningRateParams = ConstantParams(epochs=max(history.epochs, default=0))
    default.lr = next((rate for epoch in history.epochs if (rate := history[epoch].lr) is not None), default.lr)
    if stored is not None:
        default = stored.params.learning_rate
    description = "Show the rates that other params give with the recorded scores."
    parser = CommandParser(f"{PROG} {name}", description, trusted)
    parser.add_params("learning_rate", LearningRateParams, default=default, metadata={"choices": SCHEDULES, **COMMON})
    args = parser.parse(flags)
    if not len(history):
        raise UsageError(f"{name} records no epoch: nothing to replay")
    decided = next((meta["best"] for e in reversed(history.epochs) if "best" in (meta := history[e].meta)), None)
    best = None if decided is None else BestModel(decided["mode"], decided["monitor"])
    with flags_of(args.learning_rate, "learning_rate"):
        args.learning_rate.check_run(best, history.names(), logs_lav=False)
    replayed = replay(args.learning_rate, history)
    monitored = None if best is None else best.monitor
    if isinstance(args.learning_rate, FeedbackParams):
        monitored = args.learning_rate.followed(max(history.epochs) + 1, history)
    scores = [monitored] if monitored in history.names() else []
    rows = []
    for epoch in history.epochs:
        numbers = [history[epoch].lr, replayed[epoch].lr, *(history.value(epoch, name) for name in scores)]
        rows.append([str(epoch), *("-" if number is None else f"{number:.6g}" for number in numbers)])
    print_table(["epoch", "recorded", "replayed", *scores], rows)


if __name__ == "__main__":
    sys.exit(main())
