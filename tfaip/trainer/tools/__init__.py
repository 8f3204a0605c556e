"""Tools around a training: input benchmark, preview and replay of learning rates, reading of runs."""
