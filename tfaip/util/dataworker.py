"""Mark of the process as a data worker, which trains nothing and parses no flags."""

_is_data_worker = False


def mark_data_worker() -> None:
    """Mark this process; it stays a data worker until its end."""
    global _is_data_worker  # noqa: PLW0603 - a fact about the process
    _is_data_worker = True


def is_data_worker() -> bool:
    """Return True in a data worker."""
    return _is_data_worker
