"""A deployed suite for people and programs: every pod, and what is in service; and the logs of its pods."""

from __future__ import annotations

from collections.abc import Callable

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from clickline.cli.shared import live_page
from clickline.cli.shared.deployed_option import deployed_suite
from clickline.cli.shared.output import print_json, results
from clickline.deploy.deployed_health import WELL, DeployedHealth, examine_deployed
from clickline.deploy.deployed_suite import DeployedSuite
from clickline.deploy.objects.suite_names import PART_LABEL, TRAINING
from clickline.errors import PeerError
from clickline.operator.job.fields import KubernetesObject


def show_deployed(named: str, *, watch: bool, as_json: bool) -> None:
    """Print it, once or each second. Exit code 1 if something is not well."""
    with deployed_suite(named) as suite:
        look: Callable[[], DeployedHealth] = lambda: examine_deployed(suite)  # noqa: E731
        health = live_page.watch(look, page=_page, over=lambda _: False) if watch else look()
    if as_json:
        print_json(health)
    elif not watch:
        results().print(_page(health))
    if not health["well"]:
        raise typer.Exit(1)


def _page(health: DeployedHealth) -> RenderableType:
    serving = f"version {health['version']} in service" if health["version"] else "no version in service"
    rolling = f", {health['rolling']} on its way" if health["rolling"] else ""
    parts: list[RenderableType] = [Text(f"suite {health['suite']} in {health['namespace']}: {serving}{rolling}")]
    if stage := health["training"]:
        parts.append(Text(f"training: {stage['stage']} {stage.get('hour', '')} {stage.get('run', '')}".rstrip()))
    table = Table(box=None, pad_edge=False)
    for title in ("part", "pod", "health", "version", "restarts", "node"):
        table.add_column(title, overflow="fold")
    for pod in health["pods"]:
        style = "" if pod["health"] in (WELL, "done") else "red"
        version = "" if pod["version"] is None else str(pod["version"])
        cells = (pod["part"], pod["pod"], pod["health"], version, str(pod["restarts"]), pod["node"])
        table.add_row(*(Text(cell, style=style) for cell in cells))
    return Group(*parts, table)


def show_deployed_logs(named: str, who: str | None, *, lines: int, follow: bool) -> None:
    """Print the last lines of the pods of a part, or of one pod; with `follow` those of one pod that are to come."""
    with deployed_suite(named) as suite:
        suite.check_exists()
        pods = [pod for pod in suite.pods() if who in (None, pod["metadata"]["name"], _part(pod))]
        if not pods:
            known = sorted({_part(pod) for pod in suite.pods()})
            raise PeerError(f"{named} has no pod of {who!r}; it has {', '.join(known) or 'none'}")
        if follow and len(pods) > 1:
            names = ", ".join(pod["metadata"]["name"] for pod in pods)
            raise PeerError(f"--follow takes one pod, and these are several: {names}")
        for pod in pods:
            _print_log(suite, pod, lines=lines, follow=follow, alone=len(pods) == 1)


def _print_log(suite: DeployedSuite, pod: KubernetesObject, *, lines: int, follow: bool, alone: bool) -> None:
    name = pod["metadata"]["name"]
    for container in pod["spec"]["containers"]:
        query = {"tailLines": str(lines), "container": container["name"], **({"follow": "true"} if follow else {})}
        try:
            with suite.client.lines(suite.namespace, name, **query) as texts:
                for text in texts:
                    print(text if alone else f"{name} {container['name']}: {text}", flush=True)
        except PeerError as error:
            print(f"{name} {container['name']}: {error}", flush=True)


def _part(pod: KubernetesObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(PART_LABEL) or TRAINING)
