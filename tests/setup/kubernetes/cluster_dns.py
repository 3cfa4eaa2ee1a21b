"""The cluster's DNS, of the node of with_cluster.sh: python3 cluster_dns.py ADDRESS KUBECONFIG.

A real cluster has CoreDNS, which no package ships. This one answers for SERVICE.NAMESPACE.svc.cluster.local, over UDP,
with what the API server says at that moment: the IPs of the pods behind a headless service, or the service's own; and
for POD.SERVICE.NAMESPACE.svc.cluster.local, of a StatefulSet. Other names do not exist. Nothing but the standard
library, since the Python is the system's.
"""

from __future__ import annotations

import json
import socket
import ssl
import struct
import sys
import urllib.error
import urllib.request
from pathlib import Path

_SUFFIX = ("svc", "cluster", "local")
_TTL = 5
_TYPE_A, _CLASS_IN = 1, 1
_NO_ERROR, _SERVER_FAILED, _NO_SUCH_NAME = 0, 2, 3


class Services:
    """What the API server knows of services."""

    def __init__(self, kubeconfig: Path) -> None:
        words = kubeconfig.read_text(encoding="utf-8").replace('"', " ").replace("}", " ").split()
        self._server, self._token = words[words.index("{server:") + 1], words[words.index("{token:") + 1]
        # The server's certificate is its own, and made minutes ago.
        self._context = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def addresses(self, namespace: str, service: str, pod: str = "") -> list[str] | None:
        """Of a service, or of one pod behind a headless one; none if there is no such service or pod."""
        found = self._get(f"/api/v1/namespaces/{namespace}/services/{service}")
        if found is None:
            return None
        if (own := found["spec"].get("clusterIP")) != "None":
            return None if pod else [own]
        behind = self._get(f"/api/v1/namespaces/{namespace}/endpoints/{service}") or {}
        subsets = behind.get("subsets") or []
        pods = [one for subset in subsets for one in subset.get("addresses") or []]
        if pod:
            return [one["ip"] for one in pods if one.get("hostname") == pod] or None
        return [one["ip"] for one in pods]

    def _get(self, path: str) -> dict | None:
        headers = {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(self._server + path, headers=headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=5) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise


def answer(query: bytes, services: Services) -> bytes:
    """The message that answers one with a single question."""
    number, _, questions = struct.unpack("!HHH", query[:6])
    assert questions == 1, questions
    labels, end = [], 12
    while length := query[end]:
        labels.append(query[end + 1 : end + 1 + length].decode().lower())
        end += 1 + length
    end += 1
    kind, network = struct.unpack("!HH", query[end : end + 4])
    code, found = _NO_SUCH_NAME, None
    *pod, service, namespace = labels[: -len(_SUFFIX)][-3:] if len(labels) >= 2 + len(_SUFFIX) else ["", ""]
    if len(labels) <= 3 + len(_SUFFIX) and service and tuple(labels[-3:]) == _SUFFIX and network == _CLASS_IN:
        try:
            found = services.addresses(namespace=namespace, service=service, pod=pod[0] if pod else "")
            code = _NO_SUCH_NAME if found is None else _NO_ERROR
        except OSError:
            code = _SERVER_FAILED
    records = [
        # The name is that of the question, 12 bytes from the start.
        struct.pack("!HHHIH", 0xC00C, _TYPE_A, _CLASS_IN, _TTL, 4) + socket.inet_aton(address)
        for address in (found or [] if kind == _TYPE_A else [])
    ]
    # An answer, with authority; recursion was asked for perhaps, and is not available.
    header = struct.pack("!HHHHHH", number, 0x8400 | (query[2] & 1) << 8 | code, 1, len(records), 0, 0)
    return header + query[12 : end + 4] + b"".join(records)


def main(address: str, kubeconfig: str) -> None:
    services = Services(Path(kubeconfig))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind((address, 53))
        while True:
            query, client = server.recvfrom(4096)
            try:
                server.sendto(answer(query, services), client)
            except Exception as error:  # a malformed question ends no server
                print(f"{client}: {error!r}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
