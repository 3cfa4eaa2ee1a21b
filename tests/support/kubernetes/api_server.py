"""A real etcd and kube-apiserver on loopback, from the cache that `make cluster` fills; ready in seconds.

There is no controller manager: nothing is garbage-collected, and no pod runs. The tests play the kubelet. A cluster of
one's own is used instead if CLICKLINE_TEST_KUBECONFIG names it; never the one that KUBECONFIG happens to name.
"""

from __future__ import annotations

import os
import secrets
import shutil
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from support.eventually import eventually
from support.kubernetes.api_access import kubectl_proxy
from support.ports import port_range

VARIABLE = "CLICKLINE_TEST_KUBECONFIG"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clickline" / "kubernetes-1.20"
OPERATOR_USER = "system:serviceaccount:paddle-system:paddle-controller-manager"


@dataclass(frozen=True)
class TestCluster:
    """An API server, and kubectl for it."""

    __test__ = False
    kubeconfig: Path
    """Of an administrator."""
    operator_kubeconfig: Path
    """Of the operator's service account, with the rights that deploy/v1/operator.yaml gives it."""
    kubectl: str
    directory: Path
    """For what kubectl keeps."""
    proxy: Path | None = None
    """A socket for HTTP without logging in, for the cluster of somebody's own kubeconfig."""


@contextmanager
def test_cluster(directory: Path) -> Iterator[TestCluster]:
    """The cluster for tests; skips the test if there is none."""
    if given := os.environ.get(VARIABLE, ""):
        with given_cluster(given, directory) as cluster:
            yield cluster
        return
    server, kubectl, etcd = CACHE / "bin" / "kube-apiserver", CACHE / "bin" / "kubectl", shutil.which("etcd")
    missing = [str(path) for path in (server, kubectl) if not path.exists()] + (["etcd"] if etcd is None else [])
    if missing:
        pytest.skip(f"there is no {', '.join(missing)}; type: make cluster (root on Debian 12, 7 minutes)")
    with _started(directory, str(server), str(etcd)) as (kubeconfig, operator_kubeconfig):
        yield TestCluster(kubeconfig, operator_kubeconfig, str(kubectl), directory)


test_cluster.__test__ = False  # type: ignore[attr-defined]


@contextmanager
def given_cluster(kubeconfig: str, directory: Path) -> Iterator[TestCluster]:
    """The cluster of a kubeconfig, for an administrator of it."""
    kubectl = shutil.which("kubectl") or pytest.skip("there is no kubectl for the cluster of " + VARIABLE)
    file = Path(kubeconfig).expanduser()
    assert file.is_file(), f"{VARIABLE} is {kubeconfig!r}, and there is no such file; name a kubeconfig"
    with kubectl_proxy(kubectl, file, directory) as proxy:
        yield TestCluster(file, file, kubectl, directory, proxy)


@contextmanager
def _started(directory: Path, server: str, etcd: str) -> Iterator[tuple[Path, Path]]:
    store, peer, port = (port_range(3) + offset for offset in range(3))
    tokens = {"admin": secrets.token_hex(16), "operator": secrets.token_hex(16)}
    lines = [
        f'{tokens["admin"]},admin,admin,"system:masters"',
        f'{tokens["operator"]},{OPERATOR_USER},operator,"system:serviceaccounts"',
    ]
    (directory / "tokens.csv").touch(mode=0o600)
    (directory / "tokens.csv").write_text("\n".join(lines), encoding="utf-8")
    key = directory / "accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    here = f"http://127.0.0.1:{store}"
    etcd_words = [
        etcd,
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls={here}",
        f"--advertise-client-urls={here}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
    ]
    server_words = [
        server,
        f"--etcd-servers={here}",
        f"--cert-dir={directory / 'certificates'}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        "--service-cluster-ip-range=198.18.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={key}",
        f"--service-account-key-file={key}",
        f"--token-auth-file={directory / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        # The accounts that pods run as are made by the controller manager, which is not here.
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
    ]
    files = [_kubeconfig(directory / f"{user}.kubeconfig", port, token) for user, token in tokens.items()]
    with _process(etcd_words, directory / "etcd.log"), _process(server_words, directory / "server.log") as process:
        eventually(
            lambda: _ready(port, tokens["admin"]), what="an API server that is ready", seconds=120, process=process
        )
        yield files[0], files[1]


@contextmanager
def _process(words: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with this one, however that ends."""
    with log.open("w") as out:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdout=out, stderr=out, text=True)
    try:
        yield process
    finally:
        process.kill()  # nothing is to be kept, and an API server that waits for etcd would hang
        process.wait()


def _kubeconfig(file: Path, port: int, token: str) -> Path:
    cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
    settings = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": {"token": token}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    file.touch(mode=0o600)
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def _ready(port: int, token: str) -> bool:
    request = urllib.request.Request(f"https://127.0.0.1:{port}/readyz", headers={"Authorization": f"Bearer {token}"})
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, context=context, timeout=5) as answer:  # noqa: S310
            return bool(answer.read().startswith(b"ok"))
    except OSError:
        return False
