"""Evaluators: metrics in plain Python on predicted samples."""
