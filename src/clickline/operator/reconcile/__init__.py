"""From a job and its objects as they are to the status and objects that it should have. Pure functions."""
