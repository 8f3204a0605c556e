"""Directory of a run: its names and files, checkpoints, models, and what the user has permitted."""
