"""Verbs that make or import data."""
