"""Ready data generators: in-memory arrays, list files, CSV files."""
