"""Pipelines: from the samples of a generator to batches, and the post-processing of predictions."""
