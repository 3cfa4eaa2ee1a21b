"""`clickline paddle-v1`: the command line of PaddlePaddle v1's paddle.py, for scripts that have it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.host_options import HostPython, InstalledWheel
from clickline.cli.shared.output import AsJson, say_note
from clickline.cli.verbs.training.train_on_hosts import HostOptions, train_on_hosts

_CONF = Path("conf.py")


def paddle_v1(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB FLAGS",
            help="The job file, and flags of paddle.py: --job_dispatch_package=DIR or --job_workspace=DIR, "
            "--conf=FILE, --num_passes=10, --saving_period=1, …; --set KEY=VALUE for any key of the job.",
            show_default=False,
        ),
    ],
    python: HostPython = "",
    install: InstalledWheel = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint of the run.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw away the run's checkpoints and start over.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train over ssh as PaddlePaddle v1's paddle.py does: its flags, its conf.py, its pass directories.

    Example: clickline paddle-v1 job.yaml --job_dispatch_package=demo --conf=conf.py --num_passes=10
    """
    from clickline.compat.paddle_v1.paddle_flags import read_paddle_flags
    from clickline.config.loading.reader import read_draft

    flags = read_paddle_flags(arguments)
    for notice in flags.notices:
        say_note(notice)
    train_on_hosts(
        lambda weak, strong: read_draft(flags.job, overrides=[*weak, *flags.overrides, *strong]),
        "ssh",
        HostOptions(
            hosts=flags.conf or (_CONF if _CONF.is_file() else None),
            python=python,
            workspace=flags.package or Path(flags.job).parent,
            job_workspace=flags.workspace,
            install=install,
            pass_directories=True,
        ),
        resume=resume or flags.resume,
        fresh=fresh,
        as_json=as_json,
    )
