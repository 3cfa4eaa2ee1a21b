"""examples/sshd-cluster.yaml: what Kubernetes accepts, and an sshd that takes keys only."""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from support.eventually import eventually
from support.ports import port_range

EXAMPLE = Path(__file__).parents[2] / "examples" / "sshd-cluster.yaml"
KEYS = "/etc/clickline-ssh"


def objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8")))


def test_kubernetes_knows_every_field_of_it() -> None:
    found = objects()
    assert [one["kind"] for one in found] == ["Service", "StatefulSet"]
    for one in found:
        kubernetes_validate.validate(one, "1.30", strict=True)


def test_its_parts_refer_to_each_other() -> None:
    service, hosts = objects()
    labels = hosts["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == hosts["spec"]["selector"]["matchLabels"] == labels
    assert hosts["spec"]["serviceName"] == service["metadata"]["name"]
    pod = hosts["spec"]["template"]["spec"]
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    claimed = {claim["metadata"]["name"] for claim in hosts["spec"]["volumeClaimTemplates"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]} | claimed
    assert f"create secret generic {pod['volumes'][0]['secret']['secretName']} " in EXAMPLE.read_text(encoding="utf-8")


def test_its_command_is_an_sshd_that_takes_the_key_of_the_secret_and_no_password(tmp_path: Path) -> None:
    if not Path("/usr/sbin/sshd").exists() or shutil.which("ssh") is None:
        pytest.skip("there is no sshd or no ssh (packages openssh-server, openssh-client)")
    for name in ("host_key", "client"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    (tmp_path / "client.pub").rename(tmp_path / "authorized_keys")
    port = port_range(1)
    command = objects()[1]["spec"]["template"]["spec"]["containers"][0]["command"]
    command = [str(port) if word == "2222" else word.replace(KEYS, str(tmp_path)) for word in command]
    with suppress(PermissionError):  # for root alone, and the package's service makes it
        Path("/run/sshd").mkdir(exist_ok=True)
    known = (tmp_path / "host_key.pub").read_text().split()[:2]
    (tmp_path / "known_hosts").write_text(f"[127.0.0.*]:{port} {' '.join(known)}\n")
    ssh = [
        "ssh",
        "-F",
        "none",
        "-p",
        str(port),
        "-o",
        "BatchMode=yes",
        "-o",
        f"UserKnownHostsFile={tmp_path}/known_hosts",
    ]
    # Loopback only; a pod listens on all of its addresses.
    with subprocess.Popen([*command, "-oListenAddress=127.0.0.1"], stderr=subprocess.PIPE) as sshd:
        try:

            def logged_in() -> bool:
                with_key = [*ssh, "-i", str(tmp_path / "client"), "127.0.0.1", "echo in"]
                return subprocess.run(with_key, capture_output=True, check=False).stdout == b"in\n"

            eventually(logged_in, what="a login by the key", seconds=20)
            refused = subprocess.run(
                [*ssh, "-o", "IdentitiesOnly=yes", "-i", "/none", "127.0.0.1", "true"],
                capture_output=True,
                text=True,
                check=False,
            )
            assert "Permission denied (publickey)" in refused.stderr
        finally:
            sshd.terminate()
