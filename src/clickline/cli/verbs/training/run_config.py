"""`clickline run`: the runners of PaddleRec's config.yaml, on this machine; those for a cluster are submitted."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, Overrides, errors, print_json, say, say_note
from clickline.cli.shared.paddlerec_options import BackendFile, PaddleOverrides
from clickline.cli.verbs.training.run_on_node import run_on_node
from clickline.cli.verbs.training.submit_folder import SubmitRun, submit_files


def run(
    config: Annotated[
        str, typer.Option("--model", "-m", metavar="CONFIG", help="PaddleRec's config.yaml.", show_default=False)
    ],
    backend: BackendFile = None,
    paddle_overrides: PaddleOverrides = None,
    more: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Further values for -o, as PaddleRec takes them."),
    ] = None,
    infer: Annotated[
        bool,
        typer.Option("--infer", help="Test the epochs that infer_load_path has, as PaddleRec's tools/infer.py does."),
    ] = False,
    overrides: Overrides = None,
    hosts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Hosts of a backend that needs them, as of `clickline submit`.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run PaddleRec's config.yaml: the runners of `mode` in their order, each after the one before has succeeded.

    A file with one flat runner is trained, or tested with --infer.

    Checkpoints are in the directories that the file names. What a job cannot carry is listed first. With a
    backend.yaml, a runner of the class cluster_train is submitted, as by `clickline submit`.

    Example: clickline run -m config.yaml -o runner.epochs=2

    To a cluster: clickline run -m config.yaml -b backend.yaml --hosts hostfile
    """
    from clickline.compat.paddlerec.job_files import is_own_job
    from clickline.compat.paddlerec.reading.config_files import read_config
    from clickline.compat.paddlerec.running.runner_sequence import RunnerSequence
    from clickline.compat.paddlerec.submission.submit_options import SubmitOptions
    from clickline.compat.paddlerec.translation.workspace_paths import packaged_config
    from clickline.launch.local.training_run import train_job
    from clickline.progress import LogOnly, watcher_for

    on_node = os.environ.get("PADDLE_PADDLEREC_ROLE", "").strip().upper() == "WORKER"
    if on_node and is_own_job(config):  # submitted as PaddleRec's files are
        run_on_node(Path(config), [], overrides or [], as_json=as_json)
        return
    path, of_model = packaged_config(config)
    given = [*of_model, *(paddle_overrides or ()), *(more or ())]
    file = read_config(path, backend=None if backend is None else Path(backend), overrides=given)
    if file.is_for_cluster:
        if on_node:
            run_on_node(file.path, given, overrides or [], as_json=as_json)
            return
        if backend is not None:
            options = SubmitOptions(
                hosts="" if hosts is None else str(hosts),
                paddle_overrides=tuple(given),
                overrides=tuple(overrides or ()),
            )
            submit_files(file.path, Path(backend), options, "", SubmitRun(as_json=as_json))
            return
    watcher = LogOnly() if as_json else watcher_for(errors())
    sequence = RunnerSequence(file, train=train_job, watcher=watcher, overrides=overrides or (), infer=infer)
    for notice in sequence.notices:
        say_note(str(notice))
    outcomes = sequence.run()
    if as_json:
        print_json([asdict(outcome) for outcome in outcomes])
        return
    for outcome in outcomes:
        for name, figures in outcome.figures.items():
            shown = "  ".join(f"{key} {figures[key]:.5f}" for key in ("auc", "logloss", "rmse") if key in figures)
            say(f"{outcome.runner or 'test'}: {name}: {shown}")
        for saved in outcome.saved:
            say(f"saved {saved}")
