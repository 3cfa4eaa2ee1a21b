"""Predictors as processes, their clients, requests as rows, bodies and bytes."""
