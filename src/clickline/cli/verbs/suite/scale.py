"""`clickline scale`: another number of shards or replicas for the cube of a running suite."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.deployed_option import Deployed, deployed_suite
from clickline.cli.shared.output import AsJson, print_json, say

if TYPE_CHECKING:
    from clickline.launch.scaling.scale_file import ScaleRecord


def scale(
    state: Annotated[Path, typer.Argument(metavar="[STATE]", help="The directory that `up` was given.")] = Path("runs"),
    shards: Annotated[
        int | None, typer.Option(min=1, max=64, help="Of the cube; as many as before if not given.")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=16, help="Of each shard; as many as before if not given.")
    ] = None,
    deployed: Deployed = None,
    predictors: Annotated[int | None, typer.Option(min=1, max=1000, help="--deployed: pods of the predictor.")] = None,
    timeout: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="To wait for it; the suite goes on with it afterwards.")
    ] = 600.0,
    as_json: AsJson = False,
) -> None:
    """Give the cube of a running suite another number of shards or replicas, while it is read from.

    Another number of shards is a new layout: servers of its own get the version in service beside the old ones, the
    predictor moves to them when every shard has it, and the old ones are stopped when nobody reads from them. Every
    request is answered by one layout and one version. Replicas come and go within the layout.

    Example: clickline scale --shards 3

    In a cluster, the pods of the predictor: clickline scale --deployed ctr --predictors 3
    """
    from clickline.errors import JobError
    from clickline.launch.scaling.scale_request import scale as scale_suite

    if deployed is not None:
        if predictors is None or shards is not None or replicas is not None:
            raise JobError(
                "of a deployed suite, --predictors is changed here; other numbers are values: change them, and "
                "`clickline deploy` again"
            )
        with deployed_suite(deployed) as suite:
            suite.scale_predictor(predictors)
        if as_json:
            print_json({"predictors": predictors})
        else:
            say(f"the predictor of {deployed} has {predictors} pods")
        return
    if predictors is not None:
        raise JobError("--predictors is for a suite in a cluster: name it by --deployed")
    if shards is None and replicas is None:
        raise JobError("say what is to change: --shards, --replicas, or both")
    began = time.monotonic()
    record = scale_suite(
        state,
        shards=shards,
        replicas=replicas,
        timeout=timeout,
        on_progress=(lambda _: None) if as_json else _Steps(),
    )
    seconds = round(time.monotonic() - began, 2)
    if as_json:
        print_json({"shards": record["shards"], "replicas": record["replicas"], "seconds": seconds})
    else:
        say(f"the cube in {state} has {record['shards']} shards × {record['replicas']} replicas ({seconds:.1f} s)")


class _Steps:
    """Says each step once."""

    def __init__(self) -> None:
        self._said = ""

    def __call__(self, record: ScaleRecord) -> None:
        texts = {
            "starting": f"starting {record['servers']} servers",
            "delivering": "delivering the version in service to them",
            "moving": "waiting for readers to leave the servers that are not needed any more",
            "retiring": "stopping those",
        }
        text = texts.get(record["phase"], "")
        if text and text != self._said:
            self._said = text
            say(text)
