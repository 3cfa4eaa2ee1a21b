"""Pieces of the data, and the leases by which trainers read each of them once."""
