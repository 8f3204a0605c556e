"""Models: graphs, layers, losses and metrics, the steps of training and evaluation, weights."""
