"""Verbs that run one process of a cluster."""
