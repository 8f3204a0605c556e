"""The commands: one module for each; what they share is in `common`."""
