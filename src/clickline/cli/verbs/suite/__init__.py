"""Verbs about the whole chain on one machine."""
