"""PaddleJobs: spec, status, and the custom resource definition."""
