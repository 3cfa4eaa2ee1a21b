"""The reference of the job: docs/reference/job.md and job.schema.json."""

from __future__ import annotations

from clickline.config.job import Job
from clickline.config.reference.reference_pages import SettingsReference

_HEAD = """\
# The job

Made from the types by `python -m clickline.config.reference docs/reference`; edit the types, not this file.

A job is one YAML file. Every key has a default, so a job says only what differs; an unknown key is an error.
`clickline validate job.yaml` finds all mistakes at once, `clickline explain job.yaml` shows every value and where it
came from, and `--set KEY=VALUE` changes one value, with the paths below as keys: `--set train.epochs=3`,
`--set data.train[0]=day_0.gz`.

Scalars follow YAML 1.2: only `true` and `false` are booleans, `1e-3` is a number, `007` and `1_000` are text. A
secret is written as `${env:NAME}`: it is looked up where and when it is used, and printed only as that reference. A
number of seconds may be written as a duration: `30s`, `15m`, `12h`, `7d`.

Editors complete and check a job that begins with
`# yaml-language-server: $schema=<path or address of job.schema.json>`.
"""

JOB = SettingsReference("job", Job, _HEAD, top="The run itself.")
