"""Training: the loop, metrics, checkpoints."""
