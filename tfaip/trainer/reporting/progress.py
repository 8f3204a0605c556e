"""Progress and results of a training on the console: a bar or lines, a table of the epochs, a summary."""

import sys
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from itertools import groupby

from tfaip.model.losses import TOTAL_LOSS
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.run.names import EPOCH_MEAN, RATE, SCHEDULED_PREFIX, TRAIN, VALIDATION, split_name
from tfaip.util import terminal
from tfaip.util.logging import logger
from tfaip.util.text import NUMBER_WIDTH, metric_text, number_text, setting_text
from tfaip.util.typing import Logs

ROWS_PER_HEADER = 20
# Longest name of a column.
NAME_WIDTH = 24
# Title of the group of the rate.
SETTINGS = "scheduled"

log = logger(__name__)


def shows_bar(mode: ProgressBarMode) -> bool:
    """Return True if `trainer.progress_bar_mode` asks for a bar; automatic: on a terminal and in a notebook."""
    return mode is ProgressBarMode.BAR or (mode is ProgressBarMode.AUTO and terminal.can_show_bar())


def create_progress_display(mode: ProgressBarMode, monitor: str, only_loss: str | None) -> terminal.ProgressDisplay:
    """Return the display that `trainer.progress_bar_mode` asks for; arguments as in `shown_once`."""
    kind = terminal.ProgressDisplay
    if shows_bar(mode):
        kind = terminal.NotebookProgress if terminal.is_notebook() else terminal.ProgressBar
    shown = partial(shown_once, monitor=monitor, only_loss=only_loss)
    display = kind("batch", shown, "tracing, compiling and the first batches")
    if mode is ProgressBarMode.PLAIN:
        display.refresh_s = float("inf")
    return display


def shown_once(values: Logs, monitor: str, only_loss: str | None) -> Logs:
    """Return values without other names of the loss, the monitored one first.

    Args:
        values: of a training or a validation, without a prefix.
        monitor: name of the value that decides which epoch is the best.
        only_loss: a loss that is `loss` by definition; None: there is none.
    """
    first = _column_name(split_name(monitor)[1], values, only_loss)
    names = [name for name in values if _column_name(name, values, only_loss) == name]
    return {name: values[name] for name in sorted(names, key=lambda name: name != first)}


def _column_name(name: str, names: Collection[str], only_loss: str | None) -> str:
    """Return the name under which a value is shown: other names of the loss are `loss`, if that is logged too."""
    base = split_name(name)[1]
    loss = name.removesuffix(base) + TOTAL_LOSS
    return loss if base in (EPOCH_MEAN, only_loss) and loss in names else name


class EpochTable:
    """Table whose columns follow from the names of the values and the width of the terminal.

    The header is printed before the first row, again every 20 rows, and when other values or another width are shown.
    Each stage has a table of its own, since its model may log other values.

    Args:
        names: names of values that are known before the first epoch.
        monitor: name of the value that decides which epoch is the best.
        only_loss: a loss that is `loss` by definition; None: there is none.
        complete: where all values are, to mention if there is no room for some.
        stage: name of the stage; None: the run has only one.
    """

    def __init__(
        self, names: Iterable[str], monitor: str, only_loss: str | None, complete: str, stage: str | None = None
    ) -> None:
        self._names = dict.fromkeys([*names, RATE])
        self._monitor, self._only_loss, self._complete = monitor, only_loss, complete
        loss = "" if only_loss is None else f"; loss is {only_loss}"
        self._notes = [] if stage is None else [f"stage {stage}"]
        self._notes.append(f"* new best {_column_name(monitor, self._names, only_loss)}{loss}")
        self._columns: list[str] = []  # names of the values that fit
        self._chosen_for: tuple[int, list[str]] = (0, [])
        self._rows = 0

    def add(self, epoch: int, values: Logs, seconds: float, is_best: bool = False) -> str:
        """Return the lines of an epoch: its row, after a header if there must be one.

        Args:
            values: all logged values by name, those that follow a schedule included, and the learning rate as `lr`.
            is_best: True if it is the best epoch so far.
        """
        self._names |= dict.fromkeys(values)
        width = terminal.terminal_width()
        shown = [name for name in self._names if _column_name(name, self._names, self._only_loss) == name]
        if self._chosen_for != (width, shown):
            self._chosen_for, self._rows = (width, shown), 0
            self._choose_columns(width, shown)
        lines = [terminal.cut(note, max(width, 20)) for note in self._notes]
        self._notes = []
        if self._rows % ROWS_PER_HEADER == 0:
            lines += [terminal.styled(line, terminal.BOLD) for line in self._header()]
        self._rows += 1
        row = f"{epoch:>5}{terminal.styled('*', terminal.GREEN) if is_best else ' '}"
        for title, names in _grouped(self._columns):
            row += " |"
            text = setting_text if title == SETTINGS else metric_text
            for name in names:
                row += f" {text(values[name]) if name in values else '':>{_column_width(name)}}"
        return "\n".join([*lines, f"{row} | {seconds:>6.{int(seconds < 999.95)}f}"])

    def _choose_columns(self, width: int, names: Sequence[str]) -> None:
        """Choose the columns that fit, which follow from names and width alone.

        The monitored value and the rate come first, then the first value of each group, the second of each group, and
        so on.
        """
        # Within a group the loss comes first, then what the training logs too, in its order, then the rest.
        bases = [TOTAL_LOSS, *(split_name(name)[1] for name in sorted(names, key=lambda name: _group(name)[0]))]
        shown = sorted(names, key=lambda name: (_group(name)[0], name != RATE, bases.index(split_name(name)[1])))
        first = [_column_name(self._monitor, self._names, self._only_loss), RATE]
        places = {name: place for _, names in _grouped(shown) for place, name in enumerate(names)}
        chosen, groups = set[str](), set[tuple[int, str]]()
        left = width - 15  # without the number and the time of the epoch
        for name in sorted(shown, key=lambda name: ([*first, name].index(name), places[name])):
            needed = _column_width(name) + (1 if _group(name) in groups else 3)  # a bar before each group
            if needed <= left:
                left -= needed
                groups.add(_group(name))
                chosen.add(name)
        self._columns = [name for name in shown if name in chosen]
        if left_out := [name for name in shown if name not in chosen]:
            self._notes.append(f"{len(left_out)} more in {self._complete}: {', '.join(left_out)}")

    def _header(self) -> list[str]:
        titles, names, rule = " " * 6, "epoch ", "-" * 6
        for title, columns in _grouped(self._columns):
            width = sum(_column_width(name) + 1 for name in columns)
            titles += f" | {'rate' if title == SETTINGS and len(columns) == 1 else title:^{width - 1}}"
            rule += f"-+{'-' * width}"
            names += " |" + "".join(terminal.align_right(_heading(name), _column_width(name) + 1) for name in columns)
        return [f"{titles} |", f"{names} |    sec", f"{rule}-+-------"]


def _group(name: str) -> tuple[int, str]:
    """Return place and title of the group of a value: train, validation, LAV, what is scheduled."""
    if name == RATE or name.startswith(SCHEDULED_PREFIX):
        return sys.maxsize, SETTINGS
    kind = split_name(name)[0]
    if kind in (TRAIN, VALIDATION):
        return (-2, TRAIN) if kind == TRAIN else (-1, "val")
    return int(kind.removeprefix("lav_l")), kind.replace("lav_", "LAV ")


def _grouped(names: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the names of each group, after its title."""
    return [(group[1], list(found)) for group, found in groupby(names, _group)]


def _heading(name: str) -> str:
    base = name.rpartition(".")[2] if name.startswith(SCHEDULED_PREFIX) else split_name(name)[1]
    return terminal.cut("".join(character if character.isprintable() else "?" for character in base), NAME_WIDTH)


def _column_width(name: str) -> int:
    return max(NUMBER_WIDTH, terminal.text_width(_heading(name)))


def result_line(epoch: int, logs: Logs) -> str:
    """Return `Results of epoch 0007 loss: 0.1234 - lr: 3.1e-05`, sorted by name.

    Tools of users parse the line from `train.log`: never change its form.
    """
    values = " - ".join(f"{name}: {number_text(value)}" for name, value in sorted(logs.items()))
    return f"Results of epoch {epoch:04d} {values}"
