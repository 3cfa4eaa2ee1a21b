"""One S3 endpoint for all tests here, and a bucket for each."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from support.doubles.s3_server import VARIABLES, CuttingProxy, ObjectServer, use_endpoint


@pytest.fixture(scope="session")
def _object_server() -> Iterator[ObjectServer]:
    server = ObjectServer()
    yield server
    server.close()


@pytest.fixture
def s3(_object_server: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    """The endpoint, with credentials in the environment."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", _object_server.endpoint)
    use_endpoint(_object_server.endpoint)
    yield _object_server
    use_endpoint(_object_server.endpoint)


@pytest.fixture
def bucket(s3: ObjectServer) -> str:
    """The name of an empty bucket."""
    name = f"bucket-{uuid4().hex[:12]}"
    with s3.client() as client:
        client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def proxy(s3: ObjectServer) -> Iterator[CuttingProxy]:
    """The endpoint through a proxy that can cut; this process goes through it."""
    between = CuttingProxy(s3.port)
    use_endpoint(between.endpoint)
    yield between
    use_endpoint(s3.endpoint)
    between.close()
