"""Processors: what happens to the samples between the generator and the batch, and behind the model."""
