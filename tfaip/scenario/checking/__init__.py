"""Check of a scenario: findings with file and line, about code that is old, ignored or slow."""
