"""Pods of a job, the headless services of `intranet: Service`, and the Secret with the job's token."""

from __future__ import annotations

import copy
import secrets

from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.job_spec import RoleSpec
from clickline.operator.job.paddle_job import BLOCK_PORTS, PaddleJob
from clickline.operator.objects.names import (
    JOB_LABEL,
    MANAGER,
    POD_LABEL,
    RESOURCE_ANNOTATION,
    REVISION_ANNOTATION,
    ROLE_LABEL,
    TOKEN_KEY,
    endpoints_name,
    metadata,
    token_name,
)

PADDLE_ROLES = {"ps": "PSERVER", "worker": "TRAINER", "heter": "HETER"}
_OUR_ROLES = {"ps": "pserver", "worker": "trainer"}
_ELASTIC_TIMEOUT = "60"
SCRAPE_PREFIX = "prometheus.io/"
TERMINATION_LOG = "/dev/termination-log"
"""Where Kubernetes has it if a container does not say."""


def pod_manifest(job: PaddleJob, role: str, index: int, *, revision: int) -> KubernetesObject:
    """Pod `index` of a role: its template, a name that the others know, and the environment in the first container."""
    spec = job.spec.roles()[role]
    template = copy.deepcopy(spec.template)
    given = template.get("metadata") or {}
    name = f"{job.name}-{role}-{index}"
    pod = metadata(job, name)
    pod["labels"] = {**(given.get("labels") or {}), **pod["labels"], POD_LABEL: name, ROLE_LABEL: role}
    own_annotations = {RESOURCE_ANNOTATION: role, REVISION_ANNOTATION: str(revision)}
    pod["annotations"] = {**_scraped(job, role, name), **(given.get("annotations") or {}), **own_annotations}
    body: KubernetesObject = template["spec"]
    body["restartPolicy"] = restart_policy(job, role, spec)
    body.setdefault("hostname", name)
    body.setdefault("subdomain", name)
    first = body["containers"][0]
    own = _environment(job, role, index, name)
    if name == job.status_pod:
        log = first.get("terminationMessagePath") or TERMINATION_LOG
        own.append({"name": "CLICKLINE_TERMINATION_LOG", "value": log})
    set_by_user = {variable["name"] for variable in first.get("env") or ()}
    # Ours first: a variable of the user's may refer to one that stands before it.
    first["env"] = [one for one in own if one["name"] not in set_by_user] + list(first.get("env") or ())
    first["envFrom"] = [*(first.get("envFrom") or ()), {"configMapRef": {"name": endpoints_name(job, revision)}}]
    # Of a container that fails without a message, the end of its log is one: the status of the job says why then.
    first.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
    ports = {"metrics": job.metrics_port_of(name)} if role in _OUR_ROLES else {}
    if job.spec.intranet == "Host":
        body["hostNetwork"] = True
        body.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
        # Declared, so that the scheduler keeps clear of other pods which declare theirs.
        ports["paddle"] = job.port_of(name)
    if missing := _undeclared(ports, first.get("ports") or []):
        first["ports"] = [*(first.get("ports") or ()), *missing]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": body}


def _scraped(job: PaddleJob, role: str, name: str) -> dict[str, str]:
    """Annotations by which a Prometheus that goes by them finds the metrics."""
    if role not in _OUR_ROLES:
        return {}
    port = str(job.metrics_port_of(name))
    return {f"{SCRAPE_PREFIX}scrape": "true", f"{SCRAPE_PREFIX}port": port, f"{SCRAPE_PREFIX}path": "/metrics"}


def _undeclared(ports: dict[str, int], declared: list[KubernetesObject]) -> list[KubernetesObject]:
    """Ports as a container declares them, except those whose name or number the user has given to one."""
    taken = {port.get("name") for port in declared} | {port.get("containerPort") for port in declared}
    return [{"name": name, "containerPort": number} for name, number in ports.items() if not {name, number} & taken]


def restart_policy(job: PaddleJob, role: str, spec: RoleSpec) -> str:
    """Whether containers are restarted in their pod."""
    if job.spec.elastic is not None:
        return "OnFailure"
    given = (spec.template.get("spec") or {}).get("restartPolicy")
    return given or ("OnFailure" if role == "worker" and job.service_mode else "Never")


def pod_service(job: PaddleJob, pod: str) -> KubernetesObject:
    """A headless service with a pod's name, which resolves before the pod is ready: peers look for it then."""
    port = job.port_of(pod)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, pod),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {POD_LABEL: pod},
            "ports": [{"name": f"p-{offset}", "port": port + offset} for offset in range(BLOCK_PORTS)],
        },
    }


def token_secret(job: PaddleJob) -> KubernetesObject:
    """The Secret with a new token. The operator makes it and cannot read it: one that is there stays as it is."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, token_name(job)),
        "type": "Opaque",
        "stringData": {TOKEN_KEY: secrets.token_hex(32)},
    }


def _environment(job: PaddleJob, role: str, index: int, name: str) -> list[KubernetesObject]:
    pod_ip: KubernetesObject = {"name": "POD_IP"}
    if job.service_mode:
        pod_ip["value"] = name
    else:
        pod_ip["valueFrom"] = {"fieldRef": {"fieldPath": "status.podIP"}}
    values = {
        "PADDLE_TRAINER_ID": str(index),
        "TRAINING_ROLE": PADDLE_ROLES[role],
        "PADDLE_TRAINING_ROLE": PADDLE_ROLES[role],
    }
    own_ip: list[KubernetesObject] = []
    if role in _OUR_ROLES:
        values |= {"CLICKLINE_ROLE": _OUR_ROLES[role], "CLICKLINE_RANK": str(index)}
        # Not POD_IP, which is a name where pods have services, and not known before the pod is.
        own_ip = [{"name": "CLICKLINE_POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        values["CLICKLINE_METRICS"] = f"[$(CLICKLINE_POD_IP)]:{job.metrics_port_of(name)}"
    if role == "worker" and job.spec.mode == "Collective":
        values["RANK"] = str(index)
    if job.spec.intranet == "Host":
        values["PADDLE_PORT"] = str(job.port_of(name))
    if job.spec.elastic is not None:
        values |= {
            "PADDLE_ELASTIC_JOB_ID": f"{job.namespace}-{job.name}",
            "PADDLE_ELASTIC_NP": str(job.spec.replicas().get("worker", 0)),
            "PADDLE_ELASTIC_TIMEOUT": _ELASTIC_TIMEOUT,
        }
    token = {"secretKeyRef": {"name": token_name(job), "key": TOKEN_KEY}}
    return [
        pod_ip,
        *own_ip,
        *({"name": key, "value": value} for key, value in values.items()),
        {"name": "CLICKLINE_TOKEN", "valueFrom": token},
    ]


def pod_selector() -> str:
    """The labels by which pods of all jobs are watched."""
    return f"{ROLE_LABEL},{JOB_LABEL},app.kubernetes.io/managed-by={MANAGER}"
