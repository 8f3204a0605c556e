"""Scenarios: the base class that users derive from, the base for list files, and the tutorials."""
