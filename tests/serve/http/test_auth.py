"""Who may ask: nothing is needed on loopback, a token or a certificate beyond it."""

from __future__ import annotations

import ssl
import subprocess
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from clickline.errors import JobError
from clickline.serve.http.admission import EvictingPool, client_network
from clickline.serve.http.auth import TokenAuth, tls_context
from support.doubles.serving_doubles import BODY, PROBABILITY, serving
from support.serving.raw_http import Talk, get

TOKEN = b"a token for tests only"


def public(token: bytes | None = TOKEN, certificates: bool = False) -> TokenAuth:
    """As for a server that others can reach; the test's own listens on loopback all the same."""
    return TokenAuth(host="0.0.0.0", token=token, certificates=certificates)  # noqa: S104


def test_beyond_loopback_the_token_is_needed_for_all_but_health(tmp_path: Path) -> None:
    with serving(tmp_path, auth=public()) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/ctr/ready"):
            assert client.get(path).status_code == 200
        for path in ("/v2", "/v2/models/ctr", "/metrics", "/status", "/openapi.json", "/docs", "/nothing"):
            answer = client.get(path)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
            assert answer.json()["reason"] == "unauthorised"
        assert client.post("/predict", content=BODY).status_code == 401
        for wrong in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN.decode()}", f"Bearer {TOKEN.decode()}x"):
            assert client.get("/v2", headers={"Authorization": wrong}).status_code == 401
        for right in (f"Bearer {TOKEN.decode()}", f"bearer  {TOKEN.decode()}"):
            answer = client.post("/predict", content=BODY, headers={"Authorization": right})
            assert answer.json()["predictions"] == [PROBABILITY]


def test_on_loopback_nobody_needs_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        assert TokenAuth(host=host, token=TOKEN, certificates=False).token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "", "example.org"])  # noqa: S104
def test_no_server_is_public_without_token_or_certificates(host: str) -> None:
    with pytest.raises(JobError, match="CLICKLINE_TOKEN"):
        TokenAuth(host=host, token=None, certificates=False)
    assert TokenAuth(host=host, token=TOKEN, certificates=False).token == TOKEN
    assert TokenAuth(host=host, token=None, certificates=True).token is None


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and certificates of it for a server and a client; and one that nobody signed."""
    made = tmp_path_factory.mktemp("certificates")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=made, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    for name in ("authority", "stranger"):
        openssl(
            "req", "-x509", *key, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2", "-subj", f"/CN={name}"
        )
    (made / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signed = (
            "-CA",
            "authority.pem",
            "-CAkey",
            "authority.key",
            "-CAcreateserial",
            "-extfile",
            "names",
            "-days",
            "2",
        )
        openssl("x509", "-req", "-in", f"{name}.csr", *signed, "-out", f"{name}.pem")
    return made


def trusting(certificates: Path, name: str = "") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificates / "authority.pem"))
    if name:
        context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    return context


def server_side(certificates: Path, *, clients: bool) -> ssl.SSLContext:
    return tls_context(
        certificate=certificates / "server.pem",
        key=certificates / "server.key",
        clients=certificates / "authority.pem" if clients else None,
    )


def test_tls(tmp_path: Path, certificates: Path) -> None:
    tls = server_side(certificates, clients=False)
    with serving(tmp_path, tls=tls, auth=public()) as server:
        headers = {"Authorization": f"Bearer {TOKEN.decode()}"}
        with httpx.Client(base_url=server.url, trust_env=False, verify=trusting(certificates)) as client:
            assert client.post("/predict", content=BODY).status_code == 401
            for _ in range(2):
                assert client.post("/predict", content=BODY, headers=headers).json()["predictions"] == [PROBABILITY]
            large = b'{"instances":[' + b",".join([b'{"C1":"a"}'] * 4000) + b"]}"
            assert len(client.post("/predict", content=large, headers=headers).json()["predictions"]) == 4000
        with pytest.raises(httpx.ConnectError), httpx.Client(trust_env=False) as suspicious:
            suspicious.get(server.url + "/v2")
        with pytest.raises(httpx.HTTPError), httpx.Client(trust_env=False) as plain:
            plain.get(server.url.replace("https", "http") + "/v2")
        with httpx.Client(base_url=server.url, trust_env=False, verify=trusting(certificates)) as client:
            assert client.get("/v2/health/live").status_code == 200


def test_with_client_certificates_only_their_holders_get_in(tmp_path: Path, certificates: Path) -> None:
    tls = server_side(certificates, clients=True)
    guard = public(token=None, certificates=True)
    with serving(tmp_path, tls=tls, auth=guard) as server:
        with httpx.Client(base_url=server.url, trust_env=False, verify=trusting(certificates, "client")) as client:
            assert client.post("/predict", content=BODY).json()["predictions"] == [PROBABILITY]
        for name in ("", "stranger"):
            context = trusting(certificates, name)
            with httpx.Client(trust_env=False, verify=context) as client, pytest.raises(httpx.HTTPError):
                client.get(f"{server.url}/v2/health/live")
        with httpx.Client(base_url=server.url, trust_env=False, verify=trusting(certificates, "client")) as client:
            assert 'clickline_failures_total{reason="handshake"}' in client.get("/metrics").text


def test_certificates_that_cannot_be_used_are_an_error_with_their_name(tmp_path: Path, certificates: Path) -> None:
    with pytest.raises(JobError, match=r"nothing\.pem"):
        tls_context(certificate=tmp_path / "nothing.pem", key=certificates / "server.key", clients=None)
    with pytest.raises(JobError, match=r"client\.key"):
        tls_context(certificate=certificates / "server.pem", key=certificates / "client.key", clients=None)
    (tmp_path / "empty.pem").touch()
    with pytest.raises(JobError, match=r"tls\.clients"):
        tls_context(
            certificate=certificates / "server.pem", key=certificates / "server.key", clients=tmp_path / "empty.pem"
        )


def test_who_shows_the_token_has_its_own_limit_and_is_told_when_that_is_reached(tmp_path: Path) -> None:
    limits = {"connections": 2, "unauthenticated": 4}
    shown = f"Authorization: Bearer {TOKEN.decode()}"
    with serving(tmp_path, auth=public(), limits=limits) as server, ExitStack() as stack:
        talks = [Talk(stack.enter_context(server.connect())) for _ in range(3)]
        for talk, status in zip(talks, (200, 200, 429), strict=True):
            talk.send(get("/v2", shown))
            assert talk.read().status == status
        for _ in range(20):  # without it, as many as like; of them the newest are kept
            stack.enter_context(server.connect())
        for talk in talks[:2]:
            talk.send(get("/v2", shown))
            assert talk.read().status == 200


def test_tls_handshakes_that_stand_still_do_not_keep_others_out(tmp_path: Path, certificates: Path) -> None:
    tls = server_side(certificates, clients=False)
    with serving(tmp_path, tls=tls, limits={"unauthenticated": 4}) as server, ExitStack() as stack:
        silent = [stack.enter_context(server.connect()) for _ in range(40)]
        with httpx.Client(base_url=server.url, trust_env=False, verify=trusting(certificates), timeout=20) as client:
            assert client.post("/predict", content=BODY).json()["predictions"] == [PROBABILITY]
        assert Talk(silent[0]).ended()


@pytest.mark.parametrize(
    ("peer", "network"),
    [
        (("10.0.0.5", 4711), "10.0.0.5"),
        (("::ffff:10.0.0.5", 4711, 0, 0), "10.0.0.5"),
        (("2001:db8::1", 4711, 0, 0), "20010db800000000"),
        (("2001:db8::ffff:0:0:1", 4711, 0, 0), "20010db800000000"),
        (("fe80::1%eth0", 4711, 0, 2), "fe80000000000000"),
        ("", ""),
        (None, ""),
    ],
)
def test_shares_are_by_address_or_network(peer: object, network: str) -> None:
    assert client_network(peer) == network


def test_the_address_that_has_the_most_connections_loses_its_oldest() -> None:
    pool: EvictingPool[int] = EvictingPool(4)
    assert [pool.add(number, "crowd") for number in range(3)] == [None, None, None]
    assert pool.add(10, "one") is None
    assert pool.add(11, "one") == 0
    pool.discard(1)
    assert [pool.add(12, "two"), pool.add(13, "two")] == [None, 10]
    assert (len(pool), 10 in pool, 13 in pool) == (4, False, True)
