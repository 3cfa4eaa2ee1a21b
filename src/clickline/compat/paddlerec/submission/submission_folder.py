"""A submission folder, NAME_YYYYmmddHHMM: made of PaddleRec's files, or of a job, whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from clickline.compat.paddlerec.job_files import read_job_file
from clickline.compat.paddlerec.reading.backend_file import Backend
from clickline.compat.paddlerec.reading.config_files import read_backend
from clickline.compat.paddlerec.reading.file_kinds import is_paddlerec
from clickline.compat.paddlerec.submission.config_ini import ConfigIni, config_of_backend, environment_of
from clickline.compat.paddlerec.submission.credentials import masked_yaml
from clickline.compat.paddlerec.submission.generated_files import CONFIG, MANIFESTS, RESERVED, generated_hooks
from clickline.compat.paddlerec.submission.job_script import NAME as JOB_SCRIPT
from clickline.compat.paddlerec.submission.job_script import job_script_text
from clickline.compat.paddlerec.submission.kubernetes_files import manifests
from clickline.compat.paddlerec.submission.submission import Submission, read_submission, refusal_of
from clickline.compat.paddlerec.submission.submit_options import (
    MPIRUN,
    SubmitOptions,
    default_start,
    options_of_backend,
)
from clickline.compat.paddlerec.submission.upload_files import UploadFiles, find_files, split_globs
from clickline.compat.paddlerec.translation.translated_job import job_name
from clickline.config.loading.reader import read_tree
from clickline.errors import JobError, JobProblem

_YAML = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionInputs:
    """What a folder is made of."""

    options: SubmitOptions
    config: ConfigIni
    globs: Sequence[str]
    places: Sequence[Path]
    """Directories from which globs are seen."""
    files: Sequence[Path] = ()
    """That go along in any case."""
    skipped: Sequence[str] = ()
    """Names of files that are left out, whatever globs say: they are made anew."""
    notices: list[JobProblem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class MadeFolder:
    """A folder, and the submission that it is."""

    path: Path
    submission: Submission
    notices: list[JobProblem]


def inputs_of_config(
    config: Path, *, backend: Path | None, options: SubmitOptions, files: str = ""
) -> SubmissionInputs:
    """What a config.yaml, or a job, and a backend.yaml say. Raises JobError with all that is wrong in them."""
    tree = read_tree(config, repeated_keys="last")
    of_paddlerec = is_paddlerec(tree.value)
    read = read_job_file(
        str(config),
        overrides=options.overrides,
        backend=str(backend) if backend and of_paddlerec else None,
        paddle_overrides=options.paddle_overrides,
    )
    notices, found = list(read.notices), None
    if backend is not None:
        found, backend_tree = read_backend(backend, tree.value if of_paddlerec else {})
        notices += [] if of_paddlerec else backend_tree.notices
    job = read.draft.loaded.job
    if found is not None:
        options = options.or_else(options_of_backend(found))
    default = SubmitOptions(
        job_name=job.name,
        start_cmd=default_start(config) if of_paddlerec else f"clickline train ./{config.name}",
        model_directory=config.resolve().parent.name if of_paddlerec else "",
    )
    options = options.or_else(default)
    return SubmissionInputs(
        options=options,
        config=_config(found, options, threads=job.cluster.threads),
        globs=split_globs(files or (found.submit.files if found else "")),
        places=[Path.cwd(), config.resolve().parent],
        files=[config] if backend is None else [config, backend],
        notices=notices,
    )


def _config(backend: Backend | None, options: SubmitOptions, *, threads: int) -> ConfigIni:
    if backend is not None:
        return config_of_backend(backend, launcher=options.on, threads=threads)
    return ConfigIni({}, environment_of(options.on, threads=threads))


def make_folder(
    inputs: SubmissionInputs,
    place: Path,
    *,
    host_overrides: Sequence[str] = (),
    credentials_file: Path | None = None,
) -> MadeFolder:
    """Make the folder below a directory. Raises JobError with all that is wrong; nothing is left then."""
    options = _with_files_of_options(inputs.options)
    uploads = find_files(inputs.globs, inputs.places, reserved=RESERVED, skipped=inputs.skipped)
    _add_given(uploads, [*inputs.files, *([Path(inputs.options.hosts)] if inputs.options.hosts else [])])
    if credentials_file is not None and any(path.samefile(credentials_file) for path in uploads.files.values()):
        uploads.problems.append(JobProblem("submit.files", f"{credentials_file} holds credentials: leave it out"))
    try:
        staged = Path(tempfile.mkdtemp(prefix=".submission-", dir=place))
        try:
            _write(staged, options, inputs.config, uploads.files)
            submission = _read(staged, options, inputs, uploads.problems, host_overrides, credentials_file)
            if options.on == "kubernetes":
                text = manifests(submission, staged)
                (staged / MANIFESTS).write_text(text, encoding="utf-8")
            staged.chmod(0o755)
            path = staged.rename(_free_name(place, options.job_name))
        except BaseException:
            shutil.rmtree(staged, ignore_errors=True)
            raise
    except OSError as error:
        raise JobError(f"nothing was submitted: no folder can be made in {place}: {error}") from None
    notices = [*inputs.notices, *uploads.notices, *submission.notices]
    return MadeFolder(path, submission, list({str(notice): notice for notice in notices}.values()))


def _with_files_of_options(options: SubmitOptions) -> SubmitOptions:
    """As job.sh has them: files that options name are in the folder."""
    hosts = Path(options.hosts).name if options.hosts else ""
    mpirun = options.mpirun or (MPIRUN if options.on == "mpi" else "")
    return replace(options, hosts=hosts, mpirun=mpirun, files=())


def _add_given(uploads: UploadFiles, files: Sequence[Path]) -> None:
    for path in files:
        if not path.is_file():
            uploads.problems.append(JobProblem("", f"{path}: there is no such file"))
        elif path.name in RESERVED:
            message = f"{path} has the name of a file that is generated: rename it"
            uploads.problems.append(JobProblem("", message))
        else:
            uploads.add(path)


def _write(folder: Path, options: SubmitOptions, config: ConfigIni, files: Mapping[str, Path]) -> None:
    for name, source in files.items():
        if source.suffix in _YAML:
            text = source.read_bytes().decode(errors="surrogateescape")
            (folder / name).write_bytes(masked_yaml(text).encode(errors="surrogateescape"))
            shutil.copymode(source, folder / name)
        else:
            shutil.copy(source, folder / name)
    texts = {**generated_hooks(), CONFIG: config.text(), JOB_SCRIPT: job_script_text(options)}
    for name, text in texts.items():
        if not (folder / name).exists():
            (folder / name).write_text(text, encoding="utf-8")


def _read(
    folder: Path,
    options: SubmitOptions,
    inputs: SubmissionInputs,
    problems: Sequence[JobProblem],
    host_overrides: Sequence[str],
    credentials_file: Path | None,
) -> Submission:
    """The folder as it will be submitted; what is wrong with it is told together with what is wrong with its files."""
    credentials_file = None if credentials_file is None else credentials_file.absolute()
    try:
        submission = read_submission(
            folder,
            options,
            host_overrides=host_overrides,
            given=inputs.config.credentials,
            credentials_file=credentials_file,
        )
    except JobError as error:
        raise refusal_of([*problems, *error.errors]) from None
    if problems:
        raise refusal_of(problems)
    return submission


def _free_name(place: Path, name: str) -> Path:
    base = place / f"{job_name(name)}_{time.strftime('%Y%m%d%H%M')}"
    number, path = 1, base
    while path.exists():
        number += 1
        path = base.with_name(f"{base.name}_{number}")
    return path
