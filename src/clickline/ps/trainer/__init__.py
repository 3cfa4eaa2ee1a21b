"""The trainer: reads leased pieces, computes gradients, and exchanges them with the parameter servers."""
