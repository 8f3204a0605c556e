"""The settings of all sources against the params classes: chosen classes, flags and values."""
