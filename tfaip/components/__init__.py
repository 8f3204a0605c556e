"""Components of one scenario, and the import of a scenario by its name."""
