"""https: both clients and the load generator, with a certificate that is trusted, and with one that is not."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clickline import PeerError
from clickline.client.http_requests import address_of
from clickline.client.load.http_load import LoadPlan
from clickline.client.load.load_test import measure
from support.doubles.predictor_double import PredictorDouble
from support.serving.both_clients import Call


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for 127.0.0.1 that nobody but itself has signed; its key is beside it."""
    made = tmp_path_factory.mktemp("tls")
    new = ("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    names = ("-subj", "/CN=predictor", "-addext", "subjectAltName=IP:127.0.0.1")
    subprocess.run(
        ["openssl", *new, *names, "-keyout", "server.key", "-out", "server.pem"],
        cwd=made,
        check=True,
        capture_output=True,
    )
    return made / "server.pem"


@pytest.fixture
def url(double: PredictorDouble, certificate: Path) -> Iterator[str]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    double.socket = context.wrap_socket(double.socket, server_side=True)
    return double.url.replace("http:", "https:")


def test_who_trusts_the_certificate_is_answered(url: str, certificate: Path, call: Call) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    assert call(url, "predict", {"I1": 3}, options={"tls": trusting}).probabilities == [0.03]


def test_who_does_not_says_so_and_sends_nothing(
    url: str, double: PredictorDouble, certificate: Path, call: Call
) -> None:
    with pytest.raises(PeerError, match=r"cannot be reached over TLS: .*certificate"):
        call(url, "predict", {"I1": 3}, options={"token": "a-token-of-the-tests"})
    assert not double.asked


def test_load_over_tls(url: str, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    rows = [{"I1": number, "C1": "x" * 2000} for number in range(64)]
    figures, _ = measure(address_of(url), rows, LoadPlan(connections=2, requests=20), per_request=64, model="ctr")
    assert (figures["requests"], figures["failed"]) == (20, 0)


def test_grpc_load_refuses_tls(url: str) -> None:
    with pytest.raises(PeerError, match="without TLS only"):
        measure(address_of(url), [{"I1": 1}], LoadPlan(requests=1), protocol="grpc", model="ctr")
