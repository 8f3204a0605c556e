"""The smallest scenario."""
