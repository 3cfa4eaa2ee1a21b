"""HTTP to the API server of a cluster: with the token of a cluster for tests, or as whoever a kubeconfig says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import yaml

from support.eventually import eventually

if TYPE_CHECKING:
    from support.kubernetes.api_server import TestCluster

_TIMEOUT = 30.0


def http_client(cluster: TestCluster) -> httpx.Client:
    """A client whose paths are those of the API server."""
    if cluster.proxy is not None:
        transport = httpx.HTTPTransport(uds=str(cluster.proxy))
        return httpx.Client(base_url="http://localhost", transport=transport, timeout=_TIMEOUT, trust_env=False)
    settings = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    return httpx.Client(
        base_url=settings["clusters"][0]["cluster"]["server"],
        headers={"Authorization": f"Bearer {settings['users'][0]['user']['token']}"},
        verify=False,  # noqa: S501  (a certificate that the server made for itself, on this machine)
        timeout=_TIMEOUT,
        trust_env=False,
    )


@contextmanager
def kubectl_proxy(kubectl: str, kubeconfig: Path, directory: Path) -> Iterator[Path]:
    """A socket in a private directory behind which kubectl logs in, by whatever way the kubeconfig names."""
    private = directory / "proxy"
    private.mkdir(mode=0o700)
    socket, log = private / "api.sock", private / "log"
    words = [kubectl, "--kubeconfig", str(kubeconfig), "proxy", f"--unix-socket={socket}"]
    with log.open("w") as out:
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdout=out, stderr=out, env=os.environ)
    try:
        eventually(socket.exists, what="a proxy of kubectl", seconds=60, process=process)
        yield socket
    finally:
        process.kill()
        process.wait()
