"""Ready data generators: arrays, lists, tables, image folders, and mixes of generators."""
