"""Data: generators, processors, batches and pipelines. Imports no backend."""
