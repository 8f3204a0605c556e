"""Data: where samples come from, how they are processed and batched. Imports no backend."""
