"""The cube: versions delivered to sharded, replicated servers that answer with rows of exactly one version."""
