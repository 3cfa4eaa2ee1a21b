"""Counters shared by all workers, and the page that Prometheus reads."""
