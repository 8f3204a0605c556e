"""Stages of a run as they are run: one after the other, with what each takes over from the one before."""
