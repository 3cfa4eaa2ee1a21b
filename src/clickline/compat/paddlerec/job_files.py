"""Job files of either kind: our own, or a config.yaml of PaddleRec, told apart by their keys.

Verbs that read jobs read PaddleRec's files through this; what comes out is a job in either case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict, Unpack

from clickline.compat.paddlerec.reading.config_files import PaddleRecFile, read_config
from clickline.compat.paddlerec.reading.file_kinds import is_backend, is_oldest, is_paddlerec, values_of
from clickline.compat.paddlerec.reading.first_generation import FirstConfig
from clickline.compat.paddlerec.translation.first_runners import FirstTranslation
from clickline.compat.paddlerec.translation.flat_runner import FlatTranslation
from clickline.compat.paddlerec.translation.translated_job import TranslatedJob
from clickline.compat.paddlerec.translation.workspace_paths import is_packaged, packaged_config
from clickline.config.loading.reader import Draft, draft_of, read_draft, refusal
from clickline.config.loading.suggestions import suggestion
from clickline.errors import JobError, JobProblem


@dataclass(frozen=True, slots=True)
class JobFile:
    """What was read."""

    draft: Draft
    translated: TranslatedJob | None = None
    """Of a file of PaddleRec's."""
    others: list[str] = field(default_factory=list)
    """Names of further runners that train."""

    @property
    def notices(self) -> list[JobProblem]:
        """What could not be carried from PaddleRec's files; none for a job of our own."""
        return self.translated.notices if self.translated else []


class JobFileOptions(TypedDict, total=False):
    """What a job file is read with, beside its path."""

    overrides: Sequence[str]
    """Change keys of the job."""
    backend: str | None
    """The backend.yaml of a config.yaml."""
    paddle_overrides: Sequence[str]
    """Change keys of config.yaml."""
    runner: str | None
    """The runner of a config.yaml; else the first that trains."""
    directory_name: str
    """Of the directory from which a config.yaml was taken, where it is in another now."""


def read_job_file(path: str, **options: Unpack[JobFileOptions]) -> JobFile:
    """Read a job of either kind. The path may also be the name of a packaged workspace: paddlerec.models.rank.dnn.

    Raises JobError as `read_draft` does; for a file of PaddleRec's also if anything in that is wrong.
    """
    file = Path(path)
    value = values_of(file) if file.is_file() else None
    if is_packaged(path) or is_paddlerec(value) or is_oldest(value) or is_backend(value):
        return read_paddlerec_job(path, **options)
    overrides = options.pop("overrides", ())
    options.pop("directory_name", "")
    if any(options.values()):
        raise JobError(f"{path}: -b, -o and --runner are for a config.yaml of PaddleRec, which this is not; see --set")
    return JobFile(read_draft(path, overrides=overrides))


def read_paddlerec_job(path: str, **options: Unpack[JobFileOptions]) -> JobFile:
    """The job of one runner of a config.yaml; of the first that trains if none is named."""
    file, of_model = packaged_config(path)
    backend, runner = options.get("backend"), options.get("runner")
    given = [*of_model, *options.get("paddle_overrides", ())]
    config = read_config(
        file,
        backend=None if backend is None else Path(backend),
        overrides=given,
        directory_name=options.get("directory_name", ""),
    )
    jobs = translate(config)
    names = [job.runner for job in jobs]
    if runner is not None and runner not in names:
        message = f"no runner {runner!r} that trains in mode; {suggestion(runner, names, kind='runners')}"
        raise refusal(path, [JobProblem("mode", message, config.origins.nearest(("mode",))[0])])
    job = jobs[names.index(runner)] if runner is not None else jobs[0]
    draft = draft_of(job.tree, file, overrides=options.get("overrides", ()))
    return JobFile(draft, job, [name for name in names if name != job.runner])


def is_own_job(path: str) -> bool:
    """Whether a path is that of a file that is none of PaddleRec's."""
    file = Path(path)
    if is_packaged(path) or not file.is_file():
        return False
    value = values_of(file)
    return isinstance(value, dict) and not (is_paddlerec(value) or is_oldest(value) or is_backend(value))


def translate(file: PaddleRecFile) -> list[TranslatedJob]:
    """The jobs of PaddleRec's files. Raises JobError with all that stands in the way."""
    if isinstance(file.config, FirstConfig):
        return FirstTranslation(file, file.config).jobs()
    return FlatTranslation(file, file.config).jobs()
