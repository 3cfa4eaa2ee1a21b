"""The cube server: versions on disk and in memory, reads by key."""
