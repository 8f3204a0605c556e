"""What the declaration of a params class may hold, and how the class becomes a dataclass."""
