"""Cubes in this process and as processes, their readers, and who kills them."""
