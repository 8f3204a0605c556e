"""The way of a sample: generator, processors, order, batches."""
