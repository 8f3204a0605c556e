"""Stages of a training: params, program, records, and the runner; only the runner needs a backend."""
