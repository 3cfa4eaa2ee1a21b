"""The whole cluster of tests/setup/kubernetes/with_cluster.sh, in which pods run, with our operator in a pod of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.eventually import eventually
from support.kubernetes.api_server import CACHE, TestCluster
from support.kubernetes.jobs_client import JobsClient

VARIABLE = "CLICKLINE_TEST_NODE"
_DEPLOY = Path(__file__).parents[3] / "deploy" / "v1"
_OPERATOR = ("-n", "paddle-system", "deployment/paddle-controller-manager")


@dataclass(frozen=True)
class FullCluster:
    """A cluster of one node, this machine."""

    access: TestCluster
    directory: Path

    @property
    def shared(self) -> Path:
        """A directory of this machine that pods can mount by the same path, as any user."""
        return self.directory / "shared"

    def own_volume(self, pod: dict[str, Any], name: str) -> Path:
        """An emptyDir of a pod, where the kubelet has it."""
        pods = self.directory / "node" / "kubelet" / "pods"
        return pods / pod["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir" / name

    def operator_log(self) -> str:
        with JobsClient(self.access, "default") as client:
            return client.kubectl("logs", *_OPERATOR, check=False, namespaced=False).stdout


@contextmanager
def full_cluster() -> Iterator[FullCluster]:
    """The cluster, with deploy/v1 as it is shipped; skips the test if there is none."""
    given = os.environ.get(VARIABLE)
    if not given:
        pytest.skip("there is no cluster in which pods run; type: make test-cluster (root on Debian 12)")
    directory = Path(given)
    kubectl = str(CACHE / "bin" / "kubectl")
    access = TestCluster(directory / "node" / "kubeconfig", directory / "node" / "kubeconfig", kubectl, directory)
    cluster = FullCluster(access, directory)
    with JobsClient(access, "default") as client:
        files = ("-f", str(_DEPLOY / "crd.yaml"), "-f", str(_DEPLOY / "operator.yaml"))
        client.kubectl("apply", *files, namespaced=False)
        shutil.rmtree(directory / ".kube", ignore_errors=True)  # where kubectl remembers what was known before
        client.kubectl("wait", "--for=condition=Established", "crd/paddlejobs.batch.paddlepaddle.org")

        def runs() -> bool:
            words = ("rollout", "status", *_OPERATOR, "--timeout=1s")
            return client.kubectl(*words, check=False, namespaced=False).returncode == 0

        eventually(runs, what="an operator that is ready")
        yield cluster
