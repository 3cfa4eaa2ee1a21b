"""A kubelet whose containers are processes of this machine, with the environment that Kubernetes would give them.

Each pod has a loopback address of its own. It is what an API server without nodes allows; pods in containers are the
matter of a full cluster.
"""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.kubernetes.jobs_client import JobsClient

_PASSED_ON = ("PATH", "HOME", "OMP_NUM_THREADS", "OMP_WAIT_POLICY", "LD_LIBRARY_PATH")


class ProcessKubelet:
    """Runs the pods of a job, each as one process, and tells the API server how they fare."""

    def __init__(self, jobs: JobsClient, job: str, directory: Path) -> None:
        self._jobs, self._job, self._directory = jobs, job, directory
        self._addresses: dict[str, str] = {}
        # Pods have a fixed port, so those of tests that run at the same time must not share addresses.
        self._network = f"127.{64 + os.getpid() // 256 % 128}.{os.getpid() % 256}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        """By the uid of the pod."""
        self.ended: dict[str, int] = {}
        self.node = ""
        """Where pods are placed; nowhere if empty, and then there are no logs of them."""

    def step(self) -> None:
        """Look at all pods once."""
        pods = self._jobs.pods(self._job)
        here = {pod["metadata"]["uid"] for pod in pods.values()}
        for uid, process in self.processes.items():
            if uid not in here and process.poll() is None:
                process.kill()  # its pod was deleted
        for name, pod in pods.items():
            uid, short = pod["metadata"]["uid"], name.removeprefix(f"{self._job}-")
            if self.node and "nodeName" not in pod["spec"]:
                self._jobs.bind_pod(name, self.node)
            if "podIP" not in pod["status"]:
                address = self._addresses.setdefault(uid, f"{self._network}.{len(self._addresses) + 1}")
                self._jobs.run_pods(self._job, short, ready=False, address=address)
            elif uid not in self.processes:
                if self._endpoints(pod) is not None:
                    self._start(name, uid, pod)
                    self._jobs.run_pods(self._job, short, address=pod["status"]["podIP"])
            elif (code := self.processes[uid].poll()) is not None and uid not in self.ended:
                self.ended[uid] = code
                if code == 0:
                    self._jobs.succeed_pods(self._job, short, message=self._termination_message(uid))
                else:
                    self._jobs.fail_pod(self._job, short, exit_code=code if code > 0 else 128 - code)

    def stop(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()

    def logs(self) -> str:
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-1500:]}"
            for file in sorted(self._directory.glob("*.log"))
        )

    def _termination_message(self, uid: str) -> str:
        """What the container has left in its termination log."""
        file = self._directory / uid / "termination-log"
        return file.read_text() if file.exists() else ""

    def _words(self, pod: dict[str, Any], own: Path) -> list[str]:
        """The container's command, with paths in volumes that are ConfigMaps where these are written to."""
        (container,) = pod["spec"]["containers"]
        command = container.get("command") or ["clickline"]
        words = [*command, *container.get("args", [])]
        if command == ["clickline"]:
            words[:1] = [sys.executable, "-m", "clickline"]
        mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
        for volume in pod["spec"].get("volumes", []):
            if "configMap" not in volume:
                continue
            body = self._jobs.wait(
                lambda name=volume["configMap"]["name"]: self._jobs.get("configmaps", name), "the ConfigMap of a volume"
            )
            path, place = mounts[volume["name"]], own / volume["name"]
            items = volume["configMap"].get("items") or [{"key": key, "path": key} for key in body["data"]]
            for item in items:
                file = place / item["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(body["data"][item["key"]])
            words = [word.replace(f"{path}/", f"{place}/") for word in words]
        return words

    def _endpoints(self, pod: dict[str, object]) -> object:
        source = pod["spec"]["containers"][0]["envFrom"][-1]  # type: ignore[index]
        return self._jobs.get("configmaps", source["configMapRef"]["name"])

    def _start(self, name: str, uid: str, pod: dict[str, object]) -> None:
        environment = self._jobs.environment(pod)
        environment["CLICKLINE_TOKEN"] = base64.b64decode(environment["CLICKLINE_TOKEN"]).decode()
        if "CLICKLINE_TERMINATION_LOG" in environment:
            environment["CLICKLINE_TERMINATION_LOG"] = str(self._directory / uid / "termination-log")
        inherited = {key: os.environ[key] for key in _PASSED_ON if key in os.environ}
        own = self._directory / uid
        own.mkdir()
        environment["CLICKLINE_STATE"] = str(own / "state")
        words = self._words(pod, own)
        environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with (self._directory / f"{name}-{uid[:4]}.log").open("wb") as log:
            self.processes[uid] = subprocess.Popen(
                words, env={**inherited, **environment, "TMPDIR": str(own)}, cwd=own, stdout=log, stderr=log
            )
