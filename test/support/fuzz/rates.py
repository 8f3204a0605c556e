"""A learning rate function."""


def constant() -> float:
    """A rate."""
    return 0.01
