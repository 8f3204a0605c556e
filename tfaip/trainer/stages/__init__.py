"""Stages of a training: their params, their program, and its records."""
