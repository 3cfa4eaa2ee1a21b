"""`clickline train`: from a job file to a trained model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.output import AsJson, JobFile, Overrides, errors, print_json, say, say_note

if TYPE_CHECKING:
    from clickline.compat.paddle_environment.communicator_flags import Flags
    from clickline.config.loading.reader import Draft


def train(
    job: JobFile,
    overrides: Overrides = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")] = False,
    resume_from: Annotated[Path | None, typer.Option(help="Go on from this checkpoint.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away the run's checkpoints and start over.")] = False,
    warm_start: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Start with the weights of a run (directory or job file) or checkpoint."),
    ] = None,
    publish: Annotated[
        str | None, typer.Option(metavar="STORE", help="Publish what was trained there, as `clickline publish` does.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model and test it.

    Example: clickline train job.yaml --set train.epochs=2

    Another day: clickline train job.yaml --set name=tuesday --set data.train=tuesday.tsv --warm-start runs/monday
    """
    from clickline.launch.environment import torch_environment

    flags = _communicator_flags()
    draft = _read(job, [*flags.overrides, *(overrides or [])])
    if draft.loaded.job.resolved_strategy == "collective":
        os.environ.update(torch_environment(os.environ))
    # After the environment, which PyTorch may read when imported.
    from clickline.launch.training_run import train_job
    from clickline.processes.child import launched
    from clickline.processes.logs import set_up
    from clickline.progress import LogOnly, watcher_for
    from clickline.train.evaluation.metric_lines import figures_line
    from clickline.train.preflight import check_draft
    from clickline.train.run_files.own_code import use_own_code
    from clickline.train.run_files.run_directory import left_by_run

    rank_of_ours = launched() and "RANK" in os.environ
    if rank_of_ours:
        set_up("trainer", int(os.environ["RANK"]))
    if resume or resume_from is not None:
        use_own_code(Path(draft.loaded.job.output) / draft.loaded.job.name)
    checked = check_draft(draft) if not launched() else None  # else the launcher has checked it
    if checked is not None and os.environ.get("RANK", "0") == "0":
        for notice in checked.notices:
            if notice.override or not left_by_run(job):  # which names every key there is
                say_note(flags.name_in(notice))
    watcher = LogOnly() if as_json or rank_of_ours else watcher_for(errors())
    result = train_job(
        draft.loaded.job,
        resume=resume_from or resume,
        fresh=fresh,
        warm_start=warm_start,
        watcher=watcher,
        checked=True,
    )
    version = None
    if publish is not None and os.environ.get("RANK", "0") == "0":  # one of several ranks does it for all
        from clickline.publish.publisher import Settings
        from clickline.publish.publisher import publish as make
        from clickline.versions.store import open_store

        version = make(result.checkpoint, open_store(publish), Settings(), watcher=watcher)
    if as_json:
        print_json(result.to_dict() | ({} if version is None else {"version": version.version, "kind": version.kind}))
        return
    say(f"{result.rows:,} rows in {result.seconds:.1f} s, {result.steps:,} steps")
    if result.test:
        say(f"test: {figures_line(result.test)}")
    say(f"checkpoint {result.checkpoint}")
    if version is not None:
        rows = ", ".join(f"{table.rows:,} of {table.total:,} {name} rows" for name, table in version.tables.items())
        say(f"version {version.version} ({version.kind}) in {publish}: {rows}")


def _read(file: str, overrides: list[str]) -> Draft:
    """The job. One that a run has left beside its checkpoints stands for that run, wherever one is now."""
    from clickline.config.loading.reader import read_draft
    from clickline.processes.child import launched
    from clickline.train.run_files.run_directory import left_by_run

    draft, path = read_draft(file, overrides=overrides), Path(file).absolute()
    job = draft.loaded.job
    if launched() or not left_by_run(file):
        return draft
    if path.parent.name != job.name or (Path(job.output) / job.name).resolve() == path.parent.resolve():
        return draft
    # The run was moved, or the working directory is another: the recorded `output` would lead to a new run elsewhere.
    return read_draft(file, overrides=[f"output={json.dumps(str(path.parent.parent))}", *overrides])


def _communicator_flags() -> Flags:
    """Flags of PaddlePaddle's communicator in the environment; dead ones are reported, by one process of a job only."""
    from clickline.compat.paddle_environment.communicator_flags import Flags, paddle_flags
    from clickline.processes.child import launched

    if launched():  # the job that our launcher hands on has them in it, and --set on top of them
        return Flags([], {})
    flags = paddle_flags()
    if flags.dead and os.environ.get("RANK", "0") == "0":
        errors().print(flags.report(), markup=False, soft_wrap=True)
    return flags
