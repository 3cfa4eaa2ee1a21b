"""Verbs that ask a predictor."""
