"""`clickline logs`: the logs of all processes of a run, merged by time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from clickline.cli.pages.job_log import show_job_log
from clickline.cli.shared.deployed_option import Deployed
from clickline.cli.shared.output import results
from clickline.errors import ClicklineError

COLOURS = {"coordinator": "magenta", "pserver": "cyan", "trainer": "green"}
_LEVELS = {"WARNING": "yellow", "ERROR": "red", "CRITICAL": "red bold"}
_LOOK_EVERY = 0.2


def logs(
    who: Annotated[
        str | None,
        typer.Argument(metavar="[JOB|ROLE[.RANK]]", help="Whose: pserver, trainer.1, …; or a job, then a role."),
    ] = None,
    role: Annotated[str | None, typer.Argument(metavar="[ROLE[.RANK]]", help="Whose, after a job.")] = None,
    run: Annotated[
        str | None,
        typer.Option(help="Its directory, URL or job file, or a job of `clickline jobs`; the newest run if not given."),
    ] = None,
    deployed: Deployed = None,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on with what is written, until Ctrl+C.")] = False,
) -> None:
    """Show the last log lines of a run's processes, times in UTC.

    Example: clickline logs -f trainer

    Of a job on other hosts: clickline logs JOB20260131120000-1a2b pserver.1

    Of a suite in a cluster: clickline logs --deployed ctr transfer
    """
    if deployed is not None:
        from clickline.cli.pages.deployed_page import show_deployed_logs

        show_deployed_logs(deployed, who, lines=lines, follow=follow)
        return
    from clickline.launch.job_records import is_job_name, read_record
    from clickline.processes.log_follower import Follower
    from clickline.train.run_files.run_directory import find_run

    if who is not None and is_job_name(who):
        who, run = role, who
    elif role is not None:
        raise ClicklineError(f"{who!r} is not a job of `clickline jobs`; expected `clickline logs JOB ROLE`")
    if run is not None and is_job_name(run) and not Path(run).exists():
        record = read_record(run)
        if record.launcher != "local":
            show_job_log(record, _wanted(who), lines=lines, follow=follow)
            return
        run = record.run_directory
    directory = find_run(run, logs=True) / "logs"
    follower = Follower(directory, wanted=_wanted(who))
    if not follow and not follower.files():
        names = ", ".join(sorted(path.stem for path in directory.glob("*.log")))
        raise ClicklineError(f"{directory} has no log of {who or 'any process'}" + (f"; it has {names}" * bool(names)))
    console = results()
    for line in follower.last(lines):
        _show(console, line.name, line.text)
    while follow:
        fresh = follower.new()
        for line in fresh:
            _show(console, line.name, line.text)
        if not fresh:
            time.sleep(_LOOK_EVERY)


def _wanted(who: str | None) -> Callable[[str], bool]:
    def wanted(name: str) -> bool:
        return who is None or name == who or name.rpartition(".")[0] == who

    return wanted


def _show(console: Console, name: str, text: str) -> None:
    if not console.is_terminal:
        print(text, flush=True)
        return
    colour = COLOURS.get(name.rpartition(".")[0], "blue")
    start = text.find(f" {name} ")
    if start >= 0:
        shown = Text(text, style=_level_style(text))
        shown.stylize(colour, start + 1, start + 1 + len(name))
    else:  # no time and no name of its own: whose it is, the margin tells
        shown = Text.assemble(("│ ", colour), text)
    console.print(shown, soft_wrap=True)


def _level_style(text: str) -> str:
    words = text.split(" ", 2)
    return _LEVELS.get(words[1], "") if len(words) > 1 else ""
