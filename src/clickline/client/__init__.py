"""Python clients of a predictor, sync and async, and what turns rows into requests."""
