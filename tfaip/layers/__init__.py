"""Keras layers and functions that any scenario uses: regularizers, SpecAugment, CTC."""
