"""Prediction: passes of data through one or several models, and files of predicted samples."""
