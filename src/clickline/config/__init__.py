"""The typed job: reading, checking, explaining."""

from clickline.config.job import Job

__all__ = ["Job"]
