"""Many trainings of one scenario, whose params a search chooses; needs no backend."""
