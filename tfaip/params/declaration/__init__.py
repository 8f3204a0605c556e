"""Declarations of params classes: their parts, and the dataclass made of them."""
