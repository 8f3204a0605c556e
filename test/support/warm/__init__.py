"""Processes of commands that start with the backend imported: see `server.py`."""
