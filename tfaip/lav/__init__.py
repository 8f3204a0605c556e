"""LAV (load and validate): scores of exported models, and of the model in a training."""
