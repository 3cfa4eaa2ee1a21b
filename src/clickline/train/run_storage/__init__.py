"""Runs whose `output` is a URL: a local copy in which the processes work, and the objects that it is uploaded to."""
