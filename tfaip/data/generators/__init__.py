"""Ready data generators: arrays in memory, list files, CSV files, image folders, mixes of generators."""
