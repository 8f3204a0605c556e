"""The errors of the toolkit, as far as Python's own (`ValueError`, `TypeError`) do not say enough."""


class TfaipError(Exception):
    """Something failed that the user can act on. Commands print it as one line and exit with code 1."""


class UsageError(TfaipError):
    """The user typed or wrote something wrong. Commands print it as one line and exit with code 2."""
