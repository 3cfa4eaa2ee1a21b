"""An S3 endpoint over HTTP, and a proxy before it that cuts connections."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import s3fs
from moto.server import ThreadedMotoServer

from support.faulty_proxy import Chances, UnreliableProxy

SECRET = "never-to-be-shown-4f1c"  # noqa: S105  (of a server that is in this process)
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "test-access-id",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


class ObjectServer:
    """moto's S3, in a thread. `endpoint` is a URL."""

    def __init__(self) -> None:
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        self.port = int(self._server.get_host_and_port()[1])
        self.endpoint = f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self._server.stop()

    @contextmanager
    def client(self) -> Iterator[boto3.client]:
        """AWS's own client, to look at what is there without our code."""
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=VARIABLES["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )
        try:
            yield client
        finally:
            client.close()


class CuttingProxy(UnreliableProxy):
    """Passes everything on until it is told to cut; then the connection of some HTTP requests ends in the middle."""

    def __init__(self, port: int) -> None:
        self._guard = threading.Lock()
        self._method, self._kind, self._left, self._after = b"", "", 0, 0
        self._matched = self._passed = 0
        self.cuts = 0
        super().__init__(f"tcp:127.0.0.1:{port}", Chances(), seed=0)
        self.endpoint = "http://" + self.address.removeprefix("tcp:")

    def cut(self, kind: str, method: str, *, times: int, after: int = 0) -> None:
        """Cut the next `times` requests of a method, or the replies to them, after so many chunks of 64 KiB at most."""
        with self._guard:
            self._kind, self._method, self._left, self._after = kind, method.encode() + b" ", times, after
            self._matched = self._passed = 0

    def _choose(self, kind: str, data: bytes) -> str | None:
        with self._guard:
            if kind == "request" and data.startswith(self._method):
                self._matched, self._passed = 1, 0
            if not self._left or not self._matched or kind != self._kind:
                return None
            if self._passed < self._after:
                self._passed += 1
                return None
            self._left -= 1
            self._matched = 0
            self.cuts += 1
            return "cut"


def use_endpoint(url: str) -> None:
    """Let this process, and those that it starts, find S3 there. Clients that were made before are forgotten."""
    os.environ["AWS_ENDPOINT_URL"] = url
    s3fs.S3FileSystem.clear_instance_cache()
