"""Kubernetes objects of a job, as they should be and as they are seen."""
