"""Layouts of a cube: which servers hold which shard, and how transfer and readers learn of them."""
