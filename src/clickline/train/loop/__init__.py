"""The training loop of one process or one rank: epochs, validation, checkpoints, and what continues after a resume."""
