"""A run's directory: where its files are, which process may write to it, and its result."""
