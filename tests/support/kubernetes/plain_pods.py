"""Pods of plain YAML for tests: made in the API as their controllers would make them, run as processes with their env.

There is no controller manager and no kubelet, so the test does their parts; the pods' accounts and rights are real.
"""

from __future__ import annotations

import base64
import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import yaml

from support.eventually import eventually
from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples" / "plain"
_PASSED_ON = ("HOME", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "LD_LIBRARY_PATH")


def template(role: str) -> dict[str, Any]:
    """The ReplicaSet or Job of an example."""
    return dict(yaml.safe_load((EXAMPLES / f"{role}.yaml").read_text(encoding="utf-8")))


class PlainPods:
    """Pods of one job in one namespace, which belong to an account."""

    def __init__(self, cluster: TestCluster, namespace: str, directory: Path) -> None:
        self.jobs, self._directory = JobsClient(cluster, namespace), directory
        self._cluster = cluster
        self.namespace = namespace
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.kubeconfig = cluster.kubeconfig
        """Of the account that the pods run as."""

    def install_rights(self) -> None:
        """Those of the example."""
        self.jobs.kubectl("apply", "-f", str(EXAMPLES / "rbac.yaml"))
        self.use_account("clickline-job")

    def use_account(self, name: str) -> Path:
        """Run pods as a service account from now on, with a token that the API server gives out for it."""
        settings = yaml.safe_load(self._cluster.kubeconfig.read_text(encoding="utf-8"))
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        self.jobs.kubectl("apply", "-f", "-", given=account)
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{name}/token"
        answer = self._post(path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        settings["users"][0]["user"] = {"token": answer["status"]["token"]}
        file = self._directory / f"{name}.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.kubeconfig = file
        return file

    def make(self, name: str, role: str, *, owner: str = "1", ip: str = "", phase: str = "Running") -> dict[str, Any]:
        """A pod of the example's template, as its controller makes it and a kubelet runs it."""
        body = template(role)
        pod = copy.deepcopy(body["spec"]["template"])
        pod |= {"apiVersion": "v1", "kind": "Pod"}
        uid = f"00000000-0000-4000-8000-{int(owner):012d}"
        pod["metadata"] |= {
            "name": name,
            "ownerReferences": [
                {
                    "apiVersion": body["apiVersion"],
                    "kind": body["kind"],
                    "name": body["metadata"]["name"],
                    "uid": uid,
                    "controller": True,
                }
            ],
        }
        self._post(f"/api/v1/namespaces/{self.namespace}/pods", pod)
        return self.set_status(name, phase=phase, ip=ip)

    def set_status(self, name: str, *, phase: str, ip: str = "") -> dict[str, Any]:
        status = {"phase": phase} | ({"podIP": ip} if ip else {})
        self.jobs.kubectl("get", "pod", name)
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/status"
        self._request("PATCH", path, {"status": status}, kind="application/merge-patch+json")
        pod = self.jobs.get("pods", name)
        assert pod is not None
        return pod

    def delete(self, name: str) -> None:
        self.jobs.kubectl("delete", "pod", name, "--grace-period=0", "--force")

    def environment(self, name: str, **changes: str) -> dict[str, str]:
        """What the container gets, as the kubelet would put it together."""
        pod = self.jobs.get("pods", name)
        assert pod is not None
        values = {"metadata.namespace": self.namespace, "metadata.name": name, "status.podIP": pod["status"]["podIP"]}
        env: dict[str, str] = {}
        for variable in pod["spec"]["containers"][0]["env"]:
            source = variable.get("valueFrom") or {}
            if "fieldRef" in source:
                env[variable["name"]] = values[source["fieldRef"]["fieldPath"]]
            elif "secretKeyRef" in source:
                secret = self.jobs.get("secrets", source["secretKeyRef"]["name"])
                if secret is not None:
                    env[variable["name"]] = base64.b64decode(secret["data"][source["secretKeyRef"]["key"]]).decode()
            else:
                env[variable["name"]] = variable["value"]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        inherited = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        return {**inherited, "PATH": path, "KUBECONFIG": str(self.kubeconfig), **env, **changes}

    def start(self, name: str, *arguments: str, **changes: str) -> subprocess.Popen[bytes]:
        """The container's command as a process."""
        pod = self.jobs.get("pods", name)
        assert pod is not None
        command = [sys.executable, "-m", *pod["spec"]["containers"][0]["command"], *arguments]
        own = self._directory / name
        own.mkdir(exist_ok=True)
        with self.log_file(name).open("ab") as log:
            process = subprocess.Popen(
                command, env=self.environment(name, TMPDIR=str(own), **changes), cwd=own, stdout=log, stderr=log
            )
        self.processes[name] = process
        return process

    def log_file(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def log(self, name: str) -> str:
        return self.log_file(name).read_text(errors="replace")

    def code(self, name: str) -> int:
        """The exit code of a pod's process."""
        return int(
            eventually(lambda: self.processes[name].poll() is not None, what=f"the end of {name}")
            and self.processes[name].returncode
        )

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.jobs.__exit__()

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._request("POST", path, body)

    def _request(self, method: str, path: str, body: dict[str, Any], kind: str = "application/json") -> dict[str, Any]:
        settings = yaml.safe_load(self._cluster.kubeconfig.read_text(encoding="utf-8"))
        answer = httpx.request(
            method,
            settings["clusters"][0]["cluster"]["server"] + path,
            json=body,
            headers={"Authorization": f"Bearer {settings['users'][0]['user']['token']}", "Content-Type": kind},
            verify=False,  # noqa: S501  (a certificate that the server made for itself, on loopback)
            trust_env=False,
        )
        assert answer.status_code < 300, answer.text
        return dict(answer.json())
