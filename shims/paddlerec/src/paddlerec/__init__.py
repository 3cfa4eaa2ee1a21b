"""The name of PaddleRec's package, for its command alone: python -m paddlerec.run."""
