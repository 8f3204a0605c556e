"""Stages of a training: their params, and the plan that they resolve to. Needs no backend."""
