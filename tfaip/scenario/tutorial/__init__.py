"""Scenarios to learn from: `min` is the smallest one, `full` uses every part."""
