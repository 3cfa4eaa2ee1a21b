"""Addresses, tokens and HTTP servers: what every process that listens needs."""
