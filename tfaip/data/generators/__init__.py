"""Ready data generators: arrays in memory, list files, CSV files."""
