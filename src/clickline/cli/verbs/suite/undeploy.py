"""`clickline undeploy`: removes a suite from a cluster."""

from __future__ import annotations

from typing import Annotated

import typer

from clickline.cli.shared.deployed_option import deployed_suite
from clickline.cli.shared.output import AsJson, print_json, say


def undeploy(
    suite: Annotated[str, typer.Argument(metavar="[NAMESPACE/]NAME", help="The suite.", show_default=False)],
    keep_data: Annotated[bool, typer.Option("--keep-data", help="Keep its claims: runs, versions, rows.")] = False,
    wait: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="For all of it to be gone.")] = 300.0,
    as_json: AsJson = False,
) -> None:
    """Delete everything of a suite in the cluster, and wait until it is gone. That there is none is not an error.

    Example: clickline undeploy ctr
    """
    with deployed_suite(suite) as found:
        removed = found.remove(keep_data=keep_data, seconds=wait)
    if as_json:
        print_json({"removed": removed})
    else:
        say(f"{len(removed)} objects of {found.namespace}/{found.name} are gone")
