"""Which API server is used, and how we log in to it: kubeconfigs as kubectl reads them, and a pod's account."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from clickline.errors import JobError, PeerError
from clickline.launch.kubernetes.cluster_access import ClusterAccess, find_cluster
from clickline.launch.kubernetes.cluster_client import ClusterClient, ClusterRefusal
from support.kubernetes.api_server import TestCluster


def write(file: Path, *, cluster: dict[str, Any], user: dict[str, Any], namespace: str = "") -> Path:
    context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
    settings = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": context}],
        "current-context": "here",
    }
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return file


def access_of(file: Path) -> ClusterAccess:
    return find_cluster({"KUBECONFIG": str(file)})


@pytest.fixture
def known(cluster: TestCluster) -> tuple[dict[str, Any], str]:
    """The API server with the certificate that it made for itself, and a token."""
    settings = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
    certificate = cluster.directory / "certificates" / "apiserver.crt"
    server = settings["clusters"][0]["cluster"]["server"]
    if not certificate.exists():
        pytest.skip("the cluster is not one that the tests have started: its authority is not known here")
    data = base64.b64encode(certificate.read_bytes()).decode()
    return {"server": server, "certificate-authority-data": data}, settings["users"][0]["user"]["token"]


def test_the_authority_of_a_kubeconfig_is_what_is_trusted(tmp_path: Path, known: Any) -> None:
    entry, token = known
    with ClusterClient(access_of(write(tmp_path / "a", cluster=entry, user={"token": token}))) as client:
        assert client.version().startswith("v1.")
    without = {"server": entry["server"]}
    access = access_of(write(tmp_path / "b", cluster=without, user={"token": token}))
    with ClusterClient(access) as client, pytest.raises(PeerError, match=r"does not answer: .*certificate"):
        client.version()


def test_a_login_command_is_run_as_kubectl_runs_it(tmp_path: Path, known: Any) -> None:
    entry, token = known
    plugin = tmp_path / "login"
    kind = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    plugin.write_text(f"#!/bin/sh\ntest \"$SECRET\" = yes || exit 9\nprintf '{kind}' {token}\n")
    plugin.chmod(0o700)
    user = {"exec": {"command": str(plugin), "env": [{"name": "SECRET", "value": "yes"}]}}
    with ClusterClient(access_of(write(tmp_path / "a", cluster=entry, user=user))) as client:
        assert client.may("list", "Pod", "default")
    user["exec"]["env"] = [{"name": "SECRET", "value": "no"}]
    with pytest.raises(JobError, match=r"the login command .* ended with 9"):
        access_of(write(tmp_path / "b", cluster=entry, user=user))
    with pytest.raises(JobError, match=r"cannot be run: .*; install it"):
        access_of(
            write(tmp_path / "c", cluster=entry, user={"exec": {"command": "/no/such", "installHint": "install it"}})
        )


def test_a_token_that_is_not_known_is_refused(tmp_path: Path, known: Any) -> None:
    entry, _ = known
    access = access_of(write(tmp_path / "a", cluster=entry, user={"token": "x" * 32}))
    with ClusterClient(access) as client, pytest.raises(ClusterRefusal) as caught:
        client.list("Pod", "default")
    assert caught.value.is_forbidden


def test_the_account_of_a_pod_is_used_and_its_token_read_anew(tmp_path: Path, known: Any) -> None:
    entry, token = known
    (tmp_path / "ca.crt").write_bytes(base64.b64decode(entry["certificate-authority-data"]))
    (tmp_path / "namespace").write_text("training")
    (tmp_path / "token").write_text("an old one")
    host, _, port = entry["server"].removeprefix("https://").rpartition(":")
    env = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    access = find_cluster(env, account=tmp_path)
    assert (access.namespace, access.in_pod) == ("training", True)
    (tmp_path / "token").write_text(f"{token}\n")
    with ClusterClient(access) as client:
        assert client.may("list", "Pod", "training")


def test_the_first_of_several_files_counts_and_one_may_be_missing(tmp_path: Path) -> None:
    first = write(tmp_path / "a", cluster={"server": "https://one/"}, user={"token": "t"}, namespace="n")
    second = write(tmp_path / "b", cluster={"server": "https://two"}, user={"token": "t"})
    named = os.pathsep.join(map(str, (tmp_path / "missing", first, second)))
    access = find_cluster({"KUBECONFIG": named})
    assert (access.server, access.namespace) == ("https://one", "n")


def test_files_beside_the_kubeconfig_are_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("beside")
    access = access_of(write(tmp_path / "a", cluster={"server": "https://one"}, user={"tokenFile": "token"}))
    assert access.bearer_token() == "beside"


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(ClusterAccess(server="s", token="a secret", certificate="a secret"))  # noqa: S106


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({}, {"token": "t"}, "cluster 'c' has no server"),
        ({"server": "s"}, {"username": "a", "password": "b"}, "logs in by username, which Kubernetes itself has given"),
        ({"server": "s"}, {"auth-provider": {"name": "gcp"}}, "logs in by auth-provider"),
        ({"server": "s", "certificate-authority": "none.pem"}, {"token": "t"}, "certificate-authority cannot be read"),
        ({"server": "s"}, {"client-certificate-data": "QQ=="}, "a client certificate without its key"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, cluster: Any, user: Any, message: str) -> None:
    with pytest.raises(JobError, match=message):
        access_of(write(tmp_path / "a", cluster=cluster, user=user))


def test_without_any_cluster_the_ways_to_name_one_are_said(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="KUBECONFIG is not set, this is no pod, and there is no"):
        find_cluster({"HOME": str(tmp_path)}, account=tmp_path)
    with pytest.raises(JobError, match="current-context is 'b', and the contexts there are: 'here'"):
        file = write(tmp_path / "a", cluster={"server": "s"}, user={})
        file.write_text(file.read_text().replace("current-context: here", "current-context: b"))
        access_of(file)
    with pytest.raises(JobError, match="cannot be read as a kubeconfig"):
        access_of(tmp_path / "nowhere")
