"""A run's directory: where its files are, who may write to it, and what it came to."""
