"""A cluster in which pods run, with our operator in pods of it.

That of tests/setup/kubernetes/with_cluster.sh, or the one that CLICKLINE_TEST_KUBECONFIG names; there, the image that
CLICKLINE_TEST_IMAGE names, from where its nodes get images. Tests learn everything through the API server, so that
they are the same for both.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from support.eventually import eventually
from support.kubernetes.api_server import CACHE, TestCluster, given_cluster
from support.kubernetes.api_server import VARIABLE as KUBECONFIG_VARIABLE
from support.kubernetes.jobs_client import JobsClient

VARIABLE = "CLICKLINE_TEST_NODE"
IMAGE_VARIABLE = "CLICKLINE_TEST_IMAGE"
IMAGE = "clickline:0.1.0"
"""As everything that is shipped names it."""
OPERATOR_NAMESPACE, OPERATOR = "paddle-system", "paddle-controller-manager"
_DEPLOY = Path(__file__).parents[3] / "deploy" / "v1"
_DEFINITION = "crd/paddlejobs.batch.paddlepaddle.org"


@dataclass(frozen=True)
class FullCluster:
    """A cluster whose pods run an image."""

    access: TestCluster
    image: str = IMAGE
    shared: Path | None = None
    """A directory of this machine that pods can mount by the same path, as any user; of our own cluster only."""
    own_operator: bool = True
    """Whether the operator was installed for the tests, which may then do to it what they like."""

    @property
    def is_here(self) -> bool:
        """Whether pods run on this very machine, with the same processor."""
        return self.shared is not None

    def with_image(self, text: str) -> str:
        """A manifest that is shipped, with the image that this cluster has."""
        return text.replace(IMAGE, self.image)

    def operator_log(self) -> str:
        with JobsClient(self.access, OPERATOR_NAMESPACE) as client:
            words = ("-l", f"app.kubernetes.io/name={OPERATOR}", "--tail=40", "--prefix")
            return client.kubectl("logs", *words, check=False).stdout


@contextmanager
def full_cluster(directory: Path) -> Iterator[FullCluster]:
    """The cluster, with an operator that is ready; skips the test if there is none."""
    if given := os.environ.get(KUBECONFIG_VARIABLE):
        image = os.environ.get(IMAGE_VARIABLE, "")
        if not image:
            pytest.skip(f"{IMAGE_VARIABLE} does not name an image for the pods of {KUBECONFIG_VARIABLE}'s cluster")
        with given_cluster(given, directory) as access, _operator(FullCluster(access, image)) as cluster:
            yield cluster
        return
    if not (place := os.environ.get(VARIABLE)):
        pytest.skip("there is no cluster in which pods run; type: make test-cluster (root on Debian 12)")
    kubeconfig = Path(place) / "node" / "kubeconfig"
    access = TestCluster(kubeconfig, kubeconfig, str(CACHE / "bin" / "kubectl"), directory)
    with _operator(FullCluster(access, shared=Path(place) / "shared")) as cluster:
        yield cluster


@contextmanager
def _operator(cluster: FullCluster) -> Iterator[FullCluster]:
    """deploy/v1 as it is shipped. An operator that somebody has installed before is used as it is, and stays."""
    texts = [cluster.with_image((_DEPLOY / name).read_text(encoding="utf-8")) for name in ("crd.yaml", "operator.yaml")]
    with JobsClient(cluster.access, "default") as client:

        def there(*words: str) -> bool:
            return client.kubectl("get", *words, check=False, namespaced=False).returncode == 0

        deployment = ("-n", OPERATOR_NAMESPACE, f"deployment/{OPERATOR}")
        installed = there(*deployment) and not cluster.is_here
        if not installed:
            if not cluster.is_here and there(_DEFINITION):
                pytest.skip(f"the cluster has {_DEFINITION} of another operator, which these tests would replace")
            client.kubectl("apply", "-f", "-", given="\n---\n".join(texts), namespaced=False)
        shutil.rmtree(cluster.access.directory / ".kube", ignore_errors=True)  # where kubectl remembers what was before
        try:
            client.kubectl("wait", "--for=condition=Established", _DEFINITION, namespaced=False)

            def ready() -> bool:
                words = ("rollout", "status", *deployment, "--timeout=1s")
                return client.kubectl(*words, check=False, namespaced=False).returncode == 0

            eventually(ready, what="an operator that is ready")
            yield replace(cluster, own_operator=not installed)
        finally:
            if not installed and not cluster.is_here:
                client.kubectl("delete", "-f", "-", given="\n---\n".join(reversed(texts)), namespaced=False)
