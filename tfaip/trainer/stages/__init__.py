"""Stages of a training: their params and their program. Needs no backend."""
