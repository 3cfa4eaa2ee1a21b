"""What the objects of all parts are made of: metadata, containers, pods, services, claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clickline.deploy.objects.suite_names import SuiteNames
from clickline.deploy.values import PartResources, Values
from clickline.operator.job.fields import KubernetesObject

STORE = "/store"
"""Where pods have the suite's claim."""
STARTUP_LOOKS = 150
"""At two seconds each: what a container may take to start, on a node that starts many."""
USER = 1000
"""Of the image; volumes are given to its group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodParts:
    """A pod's containers and volumes, and how it is placed."""

    containers: Sequence[KubernetesObject]
    volumes: Sequence[KubernetesObject] = ()
    more: KubernetesObject = field(default_factory=dict)
    """Further fields of its spec."""


class SuiteBuilder:
    """Makes objects of one suite."""

    def __init__(self, values: Values, names: SuiteNames) -> None:
        self.values, self.names = values, names
        self.image = values.image_of_containers

    def body(
        self, api: str, kind: str, name: str, part: str, content: KubernetesObject, **labels: str
    ) -> KubernetesObject:
        """An object of the suite; `content` are its fields beside the metadata."""
        metadata = {"name": name, "namespace": self.names.namespace, "labels": self.names.labels(part, **labels)}
        return {"apiVersion": api, "kind": kind, "metadata": metadata, **content}

    def container(
        self,
        name: str,
        command: Sequence[str],
        resources: PartResources,
        *,
        ports: Mapping[str, int] | None = None,
        mounts: Mapping[str, str] | None = None,
        probes: KubernetesObject | None = None,
        token: bool = True,
        environment: Sequence[KubernetesObject] = (),
    ) -> KubernetesObject:
        """A container of the image; `mounts` are paths by volume. The token comes from its Secret."""
        # A reference: the token itself is in the Secret alone, and in no object that can be printed.
        env = [*([self.token_variable()] if token else []), *environment]
        # Memory is a limit too: a node that runs out of it takes others along. CPUs are not: a pod may use idle ones.
        limits = {"memory": resources.memory} if resources.memory else {}
        requests = {"cpu": resources.cpu} if resources.cpu else {}
        return {
            "name": name,
            "image": self.image,
            "imagePullPolicy": self.values.pull_policy,
            "command": list(command),
            **({"env": env} if env else {}),
            **({"ports": [{"name": key, "containerPort": port} for key, port in ports.items()]} if ports else {}),
            "resources": {"requests": {**requests, **limits}, **({"limits": limits} if limits else {})},
            "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in (mounts or {}).items()]
            + [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108  (of a container)
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            **(probes or {}),
        }

    def token_variable(self) -> KubernetesObject:
        secret = self.values.token_secret or self.names.token_secret
        return {"name": "CLICKLINE_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret, "key": "token"}}}

    def template(self, part: str, pod: PodParts, **labels: str) -> KubernetesObject:
        """Of pods that run as the image's user and cannot ask the API server."""
        values = self.values
        spec: KubernetesObject = {
            "containers": list(pod.containers),
            "volumes": [*pod.volumes, {"name": "tmp", "emptyDir": {}}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "automountServiceAccountToken": False,
            # Variables for every Service of the namespace, some of which the programs would take for their own.
            "enableServiceLinks": False,
            **pod.more,
        }
        if values.pull_secret:
            spec["imagePullSecrets"] = [{"name": values.pull_secret}]
        return {"metadata": {"labels": self.names.labels(part, **labels)}, "spec": spec}

    def service(
        self, name: str, part: str, ports: Mapping[str, int], *, selector: Mapping[str, str], **spec: object
    ) -> KubernetesObject:
        listed = [{"name": key, "port": port, "targetPort": port, "protocol": "TCP"} for key, port in ports.items()]
        return self.body("v1", "Service", name, part, {"spec": {"selector": selector, "ports": listed, **spec}})

    def claim_spec(self, size: str, access: str) -> KubernetesObject:
        named = {"storageClassName": self.values.storage.storage_class} if self.values.storage.storage_class else {}
        return {"accessModes": [access], "resources": {"requests": {"storage": size}}, **named}

    def store_volume(self) -> KubernetesObject:
        """The suite's own claim, or what was named in its place."""
        claim = self.values.storage.claim or self.names.claim
        return {"name": "store", "persistentVolumeClaim": {"claimName": claim}}


def http_probe(path: str, port: int, *, every: int, failures: int = 3, scheme: str = "HTTP") -> KubernetesObject:
    page = {"path": path, "port": port, "scheme": scheme}
    return {"httpGet": page, "timeoutSeconds": 5, "periodSeconds": every, "failureThreshold": failures}


def spread(selector: Mapping[str, str]) -> KubernetesObject:
    """Pods of one kind on different nodes, and in different zones, as far as there are any."""
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(selector)},
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ]
    }
