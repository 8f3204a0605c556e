"""A scenario that is declared by its parts."""
