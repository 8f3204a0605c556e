"""Trainings: one run from its params to the exported model."""
