"""Stages of a training: their params, their program, and the records of those that are done. Needs no backend."""
