"""`python -m clickline.run`, for those who are used to `python -m paddlerec.run`."""
