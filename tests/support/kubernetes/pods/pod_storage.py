"""Where a run in pods can be kept: a volume that all of them can write, or an object store, both in the cluster."""

from __future__ import annotations

import base64
import io
import json
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from support.doubles.s3_server import VARIABLES
from support.eventually import eventually
from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pods.pod_access import in_pod

CLAIM = "clickline-runs"
"""As the examples call it."""
READER, STORE, BUCKET, PORT = "runs-reader", "object-store", "clickline-runs", 5000
_LONGEST_WAIT_FOR_VOLUME = 120.0
# What moto's S3 loads and the image does not have. Of moto, 49 MB, only the services that S3 asks.
_PACKAGES = ("flask", "flask_cors", "werkzeug", "blinker", "itsdangerous", "responses", "xmltodict", "boto3")
_PACKAGES += ("s3transfer", "cryptography", "cffi", "_cffi_backend", "pycparser", "py_partiql_parser")
_SERVICES = ("core", "cloudwatch", "events", "iam", "kms", "moto_api", "moto_server", "s3", "s3bucket_path", "sts")
_SERVE = f"""
import site, time
site.addsitedir("/packages/site")
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="0.0.0.0", port={PORT}, verbose=False)
server.start()
import boto3
address = "http://127.0.0.1:{PORT}"
boto3.client("s3", endpoint_url=address, region_name="us-east-1").create_bucket(Bucket="{BUCKET}")
open("/tmp/ready", "w").close()
time.sleep(1e9)
"""
_START = """
setsid python3 -c "$1" > /tmp/log 2>&1 < /dev/null &
until [ -e /tmp/ready ]; do kill -0 $! || { cat /tmp/log; exit 1; }; sleep 0.1; done
"""
_READ = """
import site, sys
site.addsitedir("/packages/site")
import boto3
client = boto3.client("s3", endpoint_url="http://127.0.0.1:5000", region_name="us-east-1")
sys.stdout.write(client.get_object(Bucket=sys.argv[1], Key=sys.argv[2])["Body"].read().decode())
"""


class RunVolume:
    """The claim that the examples use, and a pod that reads files in it."""

    def __init__(self, jobs: JobsClient) -> None:
        self._jobs = jobs

    def result(self, run: str) -> dict[str, Any]:
        """result.json of a run."""
        return dict(json.loads(in_pod(self._jobs, READER, "cat", f"/runs/{run}/result.json")))


@contextmanager
def run_volume(cluster: FullCluster, jobs: JobsClient) -> Iterator[RunVolume]:
    """The claim; skips the test where the cluster has no volume that several pods can write."""
    claim: dict[str, Any] = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    objects: list[dict[str, Any]] = []
    if cluster.shared is not None:  # our own cluster makes no volumes by itself
        place = cluster.shared / CLAIM
        place.mkdir(mode=0o777, exist_ok=True)
        place.chmod(0o777)
        volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "storageClassName": ""}
        volume["hostPath"] = {"path": str(place), "type": "Directory"}
        objects.append({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": CLAIM}, "spec": volume})
        claim |= {"storageClassName": "", "volumeName": CLAIM}
    objects.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": CLAIM}, "spec": claim})
    runs = {"name": "runs", "persistentVolumeClaim": {"claimName": CLAIM}}
    objects.append(_idle_pod(cluster, READER, volume=runs, path="/runs"))
    jobs.kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": objects})
    try:
        if not _runs(jobs, READER):
            events = jobs.kubectl("get", "events", "-o", "custom-columns=:.message", check=False).stdout
            said = "; ".join(
                line.strip() for line in events.splitlines() if "claim" in line.lower() or "volume" in line
            )
            assert not cluster.is_here, said
            pytest.skip(f"the cluster has no volume that several pods can write (ReadWriteMany): {said[-300:]}")
        yield RunVolume(jobs)
    finally:
        jobs.kubectl("delete", "pod", READER, "--grace-period=0", "--force", check=False)
        jobs.kubectl("delete", "pvc", CLAIM, "--wait=false")
        if cluster.is_here:
            jobs.kubectl("delete", "pv", CLAIM, "--wait=false", namespaced=False)


class ObjectStore:
    """moto's S3 in a pod, and what a job needs to use it."""

    url = f"s3://{BUCKET}/runs"

    def __init__(self, jobs: JobsClient, address: str) -> None:
        self._jobs = jobs
        self.environment = [
            {"name": "AWS_ENDPOINT_URL", "value": address},
            {"name": "AWS_DEFAULT_REGION", "value": VARIABLES["AWS_DEFAULT_REGION"]},
        ]
        """Of every pod, beside the keys."""
        self.keys = [_variable("AWS_ACCESS_KEY_ID", "id"), _variable("AWS_SECRET_ACCESS_KEY", "secret")]
        """As the example has them, from a Secret."""

    def result(self, run: str) -> dict[str, Any]:
        """result.json of a run."""
        return dict(json.loads(in_pod(self._jobs, STORE, "python3", "-c", _READ, BUCKET, f"runs/{run}/result.json")))


@contextmanager
def object_store(cluster: FullCluster, jobs: JobsClient) -> Iterator[ObjectStore]:
    """moto of this Python's environment, in a pod of our image: it is copied there, as the image is not for tests."""
    pod = _idle_pod(cluster, STORE, volume={"name": "packages", "emptyDir": {}}, path="/packages")
    pod["metadata"]["labels"] = {"app": STORE}
    keys = {"id": VARIABLES["AWS_ACCESS_KEY_ID"], "secret": VARIABLES["AWS_SECRET_ACCESS_KEY"]}
    pod["spec"]["containers"][0]["env"] = [
        {"name": name, "value": VARIABLES[name]} for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    ]
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": STORE}, "stringData": keys}
    jobs.kubectl("apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": [secret, pod]})
    try:
        assert _runs(jobs, STORE), jobs.kubectl("describe", "pod", STORE).stdout
        unpack = "base64 -d | tar -xz -C /packages"
        in_pod(jobs, STORE, "sh", "-c", unpack, given=base64.b64encode(_packages()).decode())
        # In the background of a container that does nothing else; this ends when it serves, or has ended.
        started = jobs.kubectl("exec", STORE, "--", "sh", "-c", _START, "sh", _SERVE, check=False)
        if started.returncode and not cluster.is_here:
            pytest.skip(f"moto of this Python does not run in the image: {started.stdout[-300:]}")
        assert started.returncode == 0, started.stdout
        body = jobs.get("pods", STORE)
        assert body is not None
        yield ObjectStore(jobs, f"http://{body['status']['podIP']}:{PORT}")
    finally:
        jobs.kubectl("delete", "pod", STORE, "--grace-period=0", "--force", check=False)
        jobs.kubectl("delete", "secret", STORE, check=False)


def _variable(name: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": STORE, "key": key}}}


def _idle_pod(cluster: FullCluster, name: str, *, volume: dict[str, Any], path: str) -> dict[str, Any]:
    """A pod that does nothing, with a volume; commands are run in it."""
    container = {
        "name": "idle",
        "image": cluster.image,
        "command": ["sleep", "infinity"],
        "volumeMounts": [{"name": volume["name"], "mountPath": path}],
    }
    spec = {"containers": [container], "volumes": [volume], "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def _runs(jobs: JobsClient, pod: str) -> bool:
    def phase() -> bool:
        return ((jobs.get("pods", pod) or {}).get("status") or {}).get("phase") == "Running"

    try:
        return bool(eventually(phase, what=f"pod {pod} runs", seconds=_LONGEST_WAIT_FOR_VOLUME))
    except AssertionError:
        return False


def _packages() -> bytes:
    """A tar of the packages, below `site`."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        moto = _place_of("moto")
        files = [*moto.glob("*.py"), *(moto / service for service in (*_SERVICES, "utilities"))]
        found = [(file, f"site/moto/{file.name}") for file in files if file.exists()]
        for name in _PACKAGES:
            if find_spec(name):
                place = _place_of(name)
                # With what is known of their versions, which some ask for.
                notes = place.parent.glob(f"{name}-*.dist-info/METADATA")
                found += [(one, f"site/{one.relative_to(place.parent)}") for one in (place, *notes)]
        for file, name in found:
            archive.add(file, name, filter=lambda one: None if "__pycache__" in one.name else one)
    return content.getvalue()


def _place_of(name: str) -> Path:
    """The directory or file of a module."""
    spec = find_spec(name)
    assert spec is not None and spec.origin is not None, f"{sys.executable} has no {name}"
    origin = Path(spec.origin)
    return origin.parent if origin.name.startswith("__init__.") else origin
