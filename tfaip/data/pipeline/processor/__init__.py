"""Processors of samples, before the batch and after the model."""
