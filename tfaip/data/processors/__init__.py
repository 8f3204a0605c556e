"""Ready processors."""
