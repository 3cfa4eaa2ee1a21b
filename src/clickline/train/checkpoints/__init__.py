"""Checkpoints: written, found, verified, compared, resumed from."""
