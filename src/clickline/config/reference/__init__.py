"""References of settings files, made from their types for docs/reference; nothing here is needed to read a job.

    python -m clickline.config.reference docs/reference

writes job.md and job.schema.json. The schema is for editors: one that speaks YAML completes keys and underlines
mistakes while a file is written.

reference_pages       the page and the schema of any kind of settings file
attribute_docstrings  what keys mean, read from the source of their types
job_page              the reference of the job
"""

from __future__ import annotations

from clickline.config.reference.job_page import JOB
from clickline.config.reference.reference_pages import SettingsReference

__all__ = ["JOB", "SettingsReference"]
