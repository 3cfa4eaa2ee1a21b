"""Verbs about jobs, runs and checkpoints."""
