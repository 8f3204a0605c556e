"""Trees of params: visit, change, compare, copy and share."""
