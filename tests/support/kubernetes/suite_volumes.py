"""Volumes for the claims of a deployed suite: directories of the node, since nothing here makes volumes on demand."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient

STORAGE_CLASS = "suite-directories"


@contextmanager
def suite_volumes(node: FullCluster, client: JobsClient, *, count: int) -> Iterator[None]:
    """So many volumes, each of which can be claimed once."""
    assert node.shared is not None
    bodies = []
    place = node.shared / "suite-volumes"
    for number in range(count):
        directory = place / str(number)
        directory.mkdir(parents=True)
        directory.chmod(0o777)
        spec = {
            "capacity": {"storage": "100Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": STORAGE_CLASS,
            "hostPath": {"path": str(directory)},
        }
        metadata = {"name": f"suite-{number}"}
        bodies.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec})
    client.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(bodies), namespaced=False)
    try:
        yield
    finally:
        names = [body["metadata"]["name"] for body in bodies]
        client.kubectl("delete", "pv", *names, "--wait=false", namespaced=False)
        shutil.rmtree(place)
