"""Versions: what a trained model is published as, and how it is read, checked and kept."""
