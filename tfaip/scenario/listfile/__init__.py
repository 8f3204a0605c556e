"""Scenarios whose samples are named by list files."""
