"""Predictions: versions in, probabilities out."""
