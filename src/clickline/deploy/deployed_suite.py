"""A suite that is in a cluster: found by its label, whoever has made it. Its pods, its values, its address, its end."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from clickline.deploy.objects.suite_names import (
    PART_LABEL,
    PREDICTOR,
    PREDICTOR_PORT,
    SUITE_LABEL,
    TRAINING,
    SuiteNames,
)
from clickline.errors import PeerError
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.net.addresses import url_of
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.objects.names import JOB_LABEL

MANAGER = "clickline"
"""Whose fields they are, by server-side apply."""
STARTED = (  # what starts pods goes first, what they hold last
    "Job",
    "PaddleJob",
    "HorizontalPodAutoscaler",
    "Deployment",
    "StatefulSet",
    "PodDisruptionBudget",
    "Service",
    "NetworkPolicy",
    "RoleBinding",
    "Role",
    "ServiceAccount",
    "ConfigMap",
    "Secret",
)
DATA = ("PersistentVolumeClaim",)
_NEWER = ("PodDisruptionBudget", "HorizontalPodAutoscaler", "PaddleJob")
"""Kinds that a cluster may not know."""
_LOOK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class DeployedSuite:
    """One suite of a cluster."""

    client: ClusterClient
    namespace: str
    name: str

    @property
    def names(self) -> SuiteNames:
        return SuiteNames(suite=self.name, namespace=self.namespace)

    def objects(self, kind: str, *, part: str = "") -> list[KubernetesObject]:
        """Its objects of a kind."""
        labels = f"{SUITE_LABEL}={self.name}" + (f",{PART_LABEL}={part}" if part else "")
        return self.client.list(kind, self.namespace, labels=labels)

    def check_exists(self) -> None:
        """Raise PeerError unless there is such a suite."""
        if not self.objects("Deployment") and not self.objects("StatefulSet"):
            raise PeerError(
                f"there is no suite {self.name!r} in namespace {self.namespace!r} of {self.client.access.server}; "
                "`clickline deploy` makes one, and --deployed NAMESPACE/NAME names another namespace"
            )

    def pods(self) -> list[KubernetesObject]:
        """Those of its parts, and of the PaddleJobs that its training has made."""
        found = self.objects("Pod")
        if self.client.has_kind("PaddleJob"):
            for job in self.objects("PaddleJob"):
                found += self.client.list("Pod", self.namespace, labels=f"{JOB_LABEL}={job['metadata']['name']}")
        return found

    def training_stages(self, *, job: str = "") -> Iterator[dict[str, Any]]:
        """What the training pod has told, of one Job if it is named: stages that have ended, in their order."""
        for pod in self.objects("Pod", part=TRAINING):
            if job and pod["metadata"]["labels"].get("job-name") != job:
                continue
            try:
                with self.client.lines(self.namespace, pod["metadata"]["name"]) as lines:
                    for line in lines:
                        if line.startswith('{"stage"'):
                            yield json.loads(line)
            except PeerError:  # it has not begun yet
                continue

    def predictor_url(self) -> str:
        """Where the predictor is reached from outside the cluster. Raises PeerError if it is not, or not yet."""
        name = self.names.of(PREDICTOR)
        service = self.client.find("Service", self.namespace, name)
        if service is None:
            raise PeerError(f"there is no Service {name} in namespace {self.namespace!r}: is {self.name!r} deployed?")
        # A predictor has a ConfigMap only where it has a certificate.
        scheme = "https" if self.client.find("ConfigMap", self.namespace, name) else "http"
        spec = service["spec"]
        for place in ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ():
            return url_of(place.get("ip") or place["hostname"], PREDICTOR_PORT, scheme=scheme)
        port = next((one["nodePort"] for one in spec["ports"] if one.get("nodePort")), None)
        # Every node answers at the port; those of the predictor's own pods are known to be there.
        hosts = [
            host for pod in self.objects("Pod", part=PREDICTOR) if (host := (pod.get("status") or {}).get("hostIP"))
        ]
        if port and hosts:
            return url_of(hosts[0], port, scheme=scheme)
        raise PeerError(
            f"the predictor of {self.name!r} has no address outside the cluster (its Service is a {spec['type']}): "
            "set predictor.service to NodePort or LoadBalancer, or use `kubectl port-forward "
            f"service/{name} {PREDICTOR_PORT}` and --url"
        )

    def token(self) -> str:
        """The token that clients show, from the suite's Secret. Raises PeerError if we may not read it."""
        deployments = self.objects("Deployment", part=PREDICTOR)
        if not deployments:
            raise PeerError(f"{self.name!r} has no predictor")
        (container,) = deployments[0]["spec"]["template"]["spec"]["containers"]
        source = next(one for one in container["env"] if one["name"] == "CLICKLINE_TOKEN")["valueFrom"]["secretKeyRef"]
        secret = self.client.get("Secret", self.namespace, source["name"])
        return base64.b64decode(secret["data"][source["key"]]).decode()

    def scale_predictor(self, pods: int) -> None:
        """Change the number of the predictor's pods. Raises PeerError where an autoscaler does that."""
        self.check_exists()
        if self.client.has_kind("HorizontalPodAutoscaler") and self.objects("HorizontalPodAutoscaler"):
            raise PeerError("the predictor is autoscaled: change predictor.replicas and max_replicas in the values")
        self.client.merge("Deployment", self.namespace, self.names.of(PREDICTOR), {"spec": {"replicas": pods}})

    def remove(self, *, keep_data: bool, seconds: float) -> list[str]:
        """Delete all of it, and wait until it is gone; what was deleted. Raises PeerError if something stays."""
        removed = []
        kinds = [*STARTED, *(() if keep_data else DATA)]
        known = [kind for kind in kinds if kind not in _NEWER or self.client.has_kind(kind)]
        for kind in known:
            for body in self.objects(kind):
                if self.client.delete(kind, self.namespace, body["metadata"]["name"]):
                    removed.append(f"{kind} {body['metadata']['name']}")
        # Objects are gone from the API when their finalizers are done, and pods when their processes are.
        give_up = time.monotonic() + seconds
        while left := [f"{kind} {body['metadata']['name']}" for kind in ("Pod", *known) for body in self.objects(kind)]:
            if time.monotonic() > give_up:
                raise PeerError(f"still there after {seconds:g} s: {', '.join(left)}")
            time.sleep(_LOOK_EVERY)
        return removed
