"""A scenario with options, augmentation, a choice of graphs, an evaluator and images."""
