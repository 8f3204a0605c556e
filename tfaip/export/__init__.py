"""Exported models: directories, formats for other programs, and the data of their training."""
