"""The option by which verbs mean a suite in a cluster in place of one of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clickline.deploy.deployed_suite import DeployedSuite

Deployed = Annotated[
    str | None,
    typer.Option(
        "--deployed",
        metavar="[NAMESPACE/]NAME",
        help="A suite of `clickline deploy`, in the cluster of KUBECONFIG.",
        show_default=False,
    ),
]


@contextmanager
def deployed_suite(named: str) -> Iterator[DeployedSuite]:
    """The suite that is named, in the namespace of the kubeconfig's context unless it names one."""
    from clickline.deploy.deployed_suite import DeployedSuite
    from clickline.launch.kubernetes.cluster_access import find_cluster
    from clickline.launch.kubernetes.cluster_client import ClusterClient

    access = find_cluster()
    namespace, _, name = named.rpartition("/")
    with ClusterClient(access) as client:
        yield DeployedSuite(client, namespace or access.namespace, name)
