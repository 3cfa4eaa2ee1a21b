"""Verbs about published versions."""
