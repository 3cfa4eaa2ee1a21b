"""`clickline deploy`: the whole suite in a cluster."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.output import AsJson, print_json, say, say_note

if TYPE_CHECKING:
    from clickline.deploy.suite_deployment import StageTime


def deploy(
    values: Annotated[
        Path | None, typer.Argument(metavar="[VALUES]", help="A YAML file; all values have defaults.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the objects; make none.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Write them there, a file for each part; make none."),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="For the first prediction; 0: do not wait.")
    ] = 1800.0,
    as_json: AsJson = False,
) -> None:
    """Train, publish, deliver and serve in the cluster of KUBECONFIG; returns when a prediction has come back.

    Called again with other values, it changes what differs. Without values it is a demo. The cluster must have the
    operator (deploy/v1). docs/deploy.md has the values and the way from ElasticCTR.

    Example: clickline deploy values.yaml
    """
    from clickline.deploy.suite_deployment import SuiteDeployment
    from clickline.deploy.suite_objects import ClusterFeatures, as_text, suite_objects
    from clickline.deploy.values import read_values
    from clickline.errors import JobError
    from clickline.launch.kubernetes.cluster_access import find_cluster
    from clickline.launch.kubernetes.cluster_client import ClusterClient

    read = read_values(values)
    beside = Path() if values is None else values.parent
    if dry_run or out is not None:
        try:
            namespace = read.namespace or find_cluster().namespace
        except JobError:
            namespace = "default"
        files = suite_objects(read, namespace=namespace, beside=beside)
        if out is None:
            for name, objects in files.items():
                say(f"# {name}\n{as_text(objects)}".rstrip("\n"))
            return
        out.mkdir(parents=True, exist_ok=True)
        for name, objects in files.items():
            (out / name).write_text(as_text(objects), encoding="utf-8")
            say(str(out / name))
        secret = read.token_secret or f"{read.name}-token"
        say_note(f"their pods need a Secret {secret} with the entry `token`, of at least 16 characters")
        return
    access = find_cluster()
    namespace = read.namespace or access.namespace
    with ClusterClient(access) as client:
        files = suite_objects(read, namespace=namespace, beside=beside, features=ClusterFeatures.of(client))
        on_stage = (lambda _: None) if as_json else _show
        deployment = SuiteDeployment(client, read, files, namespace=namespace, on_stage=on_stage)
        deployment.make()
        report = deployment.report
        if not as_json:
            say(f"{report.objects} objects in namespace {namespace}")
        if wait:
            report = deployment.wait(seconds=wait)
    if as_json:
        print_json(asdict(report))
    elif wait:
        say(f"{report.seconds / 60:.1f} minutes to the first prediction, of version {report.version}", style="green")
        say(f"next: clickline status --deployed {namespace}/{read.name}")


def _show(stage: StageTime) -> None:
    note = f", {stage.note}" if stage.note else ""
    say(f"{stage.seconds / 60:6.2f} min  {stage.stage}{note}")
