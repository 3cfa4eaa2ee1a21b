"""A folder that was written by hand for PaddleCloud's client: job.sh, config.ini, before_hook.sh, and its files."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from clickline.compat.paddlerec.submission.config_ini import ROLE, read_config_ini
from clickline.compat.paddlerec.submission.generated_files import AFTER, BEFORE, RESERVED
from clickline.compat.paddlerec.submission.submission_folder import SubmissionInputs
from clickline.compat.paddlerec.submission.submit_options import SubmitOptions
from clickline.compat.paddlerec.submission.upload_files import split_globs
from clickline.errors import JobProblem

_INSTALLS = re.compile(r"PaddleRec\.tar\.gz|setup\.py install|pip[0-9.]* install.*paddle", re.IGNORECASE)


def inputs_of_directory(directory: Path, options: SubmitOptions) -> SubmissionInputs:
    """What a folder of PaddleCloud's says; `options` are those of its job.sh. Raises JobError."""
    config = read_config_ini(directory / options.job_conf)
    own = [path for path in sorted(directory.iterdir()) if path.is_file() and not path.name.startswith(".")]
    globs = [pattern for text in options.files for pattern in split_globs(text)]
    # Without a word of job.sh, everything that is there goes along; hooks in any case.
    files = [path for path in own if path.name in (BEFORE, AFTER) or (not globs and path.name not in RESERVED)]
    return SubmissionInputs(
        options=replace(
            options, job_conf=SubmitOptions().job_conf, job_name=options.job_name or directory.resolve().name
        ),
        config=config,
        globs=globs,
        skipped=(*RESERVED, Path(options.job_conf).name),
        places=[directory],
        files=files,
        notices=list(_notices(directory, config.environment.get(ROLE, ""), config.credentials)),
    )


def _notices(directory: Path, role: str, credentials: dict[str, str]) -> list[JobProblem]:
    notices = []
    if role.upper() != "WORKER":
        notices.append(JobProblem(ROLE, "is WORKER on nodes, whatever config.ini says"))
    for key, value in credentials.items():
        if value and not value.startswith("${env:"):
            message = "a credential in config.ini: the folder that is made has a reference in its place"
            notices.append(JobProblem(key, message))
    hook = directory / BEFORE
    if hook.is_file() and _INSTALLS.search(hook.read_text(encoding="utf-8", errors="replace")):
        message = "installs Paddle or PaddleRec, which nothing here needs: those lines can go"
        notices.append(JobProblem(BEFORE, message))
    return notices
