"""Runs of PaddleRec's files on this machine: runners in their order, and what they leave where PaddleRec had it."""
