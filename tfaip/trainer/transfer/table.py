"""Text table of a transfer."""

from __future__ import annotations

import logging

from tfaip.trainer.transfer.plan import Outcome, Row, Shape, Transfer
from tfaip.util.logging import logger
from tfaip.util.terminal import table_lines

log = logger(__name__)

_UNUSED_SHOWN = 5


def transfer_table(transfer: Transfer) -> list[str]:
    """Return a line per target weight (path, shape, outcome), and one per source with its unused arrays."""
    cells = [("weight", "shape", "")] + [
        (row.target, shape_text(row.shape), _outcome_text(row, transfer)) for row in transfer.rows
    ]
    return table_lines(cells, left=3) + _unused_lines(transfer)


def log_table(transfer: Transfer) -> None:
    """Log the table; a weight that may have been taken over in a wrong way is a warning."""
    head, *lines = transfer_table(transfer)
    log.info("  %s", head)
    for place, line in enumerate(lines):
        is_doubtful = place < len(transfer.rows) and transfer.rows[place].is_loaded and transfer.rows[place].reason
        log.log(logging.WARNING if is_doubtful else logging.INFO, "  %s", line)


def counts_text(transfer: Transfer) -> str:
    """Return how many weights are copied, resized and fresh, in words."""
    whole, partly = len(transfer.with_outcome(Outcome.LOADED)), len(transfer.with_outcome(Outcome.PARTLY_LOADED))
    return f"{whole} copied, {partly} resized, {len(transfer.rows) - whole - partly} fresh"


def is_whole(transfer: Transfer) -> bool:
    """Return True if all weights are copied as they are."""
    return len(transfer.with_outcome(Outcome.LOADED)) == len(transfer.rows)


def shape_text(shape: Shape) -> str:
    """Return a shape as text, e.g. `3x4`; `()` for a scalar."""
    return "x".join(map(str, shape)) or "()"


def _outcome_text(row: Row, transfer: Transfer) -> str:
    if row.candidates:
        return f"{row.outcome} ({' or '.join(row.candidates)})"
    text = str(row.outcome)
    if row.fit is not None:
        text += f" {row.fit}"
    found = row.found
    if found is None:
        return text
    if row.reason:
        text += f" ({row.reason}; source: {shape_text(found.shape)})"
    if row.outcome is Outcome.SHAPE_DIFFERS:
        text += f" (source: {shape_text(found.shape)})"
    if len(transfer.sources) > 1:
        return f"{text} from {transfer.sources[found.place].description}: {found.name}"
    return text if found.name == row.target else f"{text} from {found.name}"


def _unused_lines(transfer: Transfer) -> list[str]:
    lines = []
    for place, source in enumerate(transfer.sources):
        names = transfer.unused(place)
        if names:
            more = f" and {len(names) - _UNUSED_SHOWN} more" if len(names) > _UNUSED_SHOWN else ""
            lines.append(f"not used of {source.description}: {', '.join(names[:_UNUSED_SHOWN])}{more}")
    return lines
