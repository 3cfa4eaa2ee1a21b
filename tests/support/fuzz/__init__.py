"""Fuzzing in Python: how long, with which inputs, against what."""
