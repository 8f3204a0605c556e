"""Small tools without a relation to training: files, names, logging, terminal."""
