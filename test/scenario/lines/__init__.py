"""A scenario whose parts are params and code in one class, and share their data."""
