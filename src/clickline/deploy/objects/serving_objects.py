"""File server, transfer, predictor and client: the parts of a suite that are Deployments, each with its Service."""

from __future__ import annotations

import yaml

from clickline.deploy.objects.building_blocks import STARTUP_LOOKS, STORE, PodParts, SuiteBuilder, http_probe, spread
from clickline.deploy.objects.suite_names import (
    CLIENT,
    FILE_PORT,
    FILE_SERVER,
    PREDICTOR,
    PREDICTOR_PORT,
    TRANSFER,
    TRANSFER_PORT,
)
from clickline.deploy.values import PartResources
from clickline.files.digests import stream_sha256
from clickline.net.addresses import url_of
from clickline.operator.job.fields import KubernetesObject

VERSIONS = f"{STORE}/versions"
TLS_DIRECTORY = "/tls"
_BUILDS, _CONFIG = "/builds", "/config"
_CLIENT_FILES = "/client"
_ASK = f"""\
until clickline client-config --url "$PREDICTOR_URL" --out {_CLIENT_FILES} --json; do sleep 1; done
exec sleep infinity
"""
"""Asks until a prediction comes back. What it writes is what `kubectl exec` finds there to ask with."""


def file_server_objects(build: SuiteBuilder) -> list[KubernetesObject]:
    """The store of versions over HTTP. Without a token it takes no uploads."""
    names, values = build.names, build.values
    command = values.description.file_server(root=VERSIONS, listen=f"0.0.0.0:{FILE_PORT}")
    container = build.container(
        FILE_SERVER,
        # The first one to come makes the directory: the store is empty until something is published.
        ["sh", "-c", f'mkdir -p {VERSIONS} && exec clickline "$@"', "clickline", *command],
        values.file_server,
        ports={"http": FILE_PORT},
        mounts={"store": STORE},
        probes=_probes("/health", FILE_PORT, ready="/health"),
        token=False,
    )
    objects = [
        *_deployment(build, FILE_SERVER, PodParts(containers=[container], volumes=[build.store_volume()])),
        build.service(names.of(FILE_SERVER), FILE_SERVER, {"http": FILE_PORT}, selector=names.selector(FILE_SERVER)),
    ]
    if not values.storage.claim:
        claim = {"spec": build.claim_spec(values.storage.size, values.storage.access)}
        objects.insert(0, build.body("v1", "PersistentVolumeClaim", names.claim, FILE_SERVER, claim))
    return objects


def transfer_objects(build: SuiteBuilder) -> list[KubernetesObject]:
    """Transfer: one, with its ledger on a claim, so that it goes on where it was."""
    names, values = build.names, build.values
    description = values.description
    members = names.members(shards=description.shards, replicas=description.replicas)
    listed = [[{"agent": one.agent, "cube": one.cube} for one in replicas] for replicas in members]
    keys = description.transfer_keys(
        store=_store_url(build), builds=f"{_BUILDS}/output", state=f"{_BUILDS}/state", members={"shards": listed}
    )
    # Agents download from here by the Service's name: the pod's own address changes.
    keys["transfer_address"] = names.host(TRANSFER)
    text = yaml.safe_dump(keys, sort_keys=False)
    container = build.container(
        TRANSFER,
        ["clickline", *description.transfer(f"{_CONFIG}/transfer.yaml", listen=f"0.0.0.0:{TRANSFER_PORT}")],
        values.transfer,
        ports={"http": TRANSFER_PORT},
        mounts={"builds": _BUILDS, "config": _CONFIG},
        probes=_probes("/health", TRANSFER_PORT, ready="/health"),
    )
    name = names.of(TRANSFER)
    kept = {"persistentVolumeClaim": {"claimName": f"{name}-builds"}} if values.transfer.storage else {"emptyDir": {}}
    volumes: list[KubernetesObject] = [
        {"name": "builds", **kept},
        {"name": "config", "configMap": {"name": name}},
    ]
    objects = [
        build.body("v1", "ConfigMap", name, TRANSFER, {"data": {"transfer.yaml": text}}),
        *_deployment(build, TRANSFER, PodParts(containers=[container], volumes=volumes), annotation=text),
        build.service(name, TRANSFER, {"http": TRANSFER_PORT}, selector=names.selector(TRANSFER)),
    ]
    if values.transfer.storage:
        spec = {"spec": build.claim_spec(values.transfer.storage, "ReadWriteOnce")}
        objects.insert(0, build.body("v1", "PersistentVolumeClaim", f"{name}-builds", TRANSFER, spec))
    return objects


def predictor_objects(build: SuiteBuilder, *, autoscaling: bool) -> list[KubernetesObject]:
    """The prediction service; ready when it has a whole version to answer with."""
    names, values = build.names, build.values
    description, predictor = values.description, values.predictor
    servers = [
        [member.cube for member in replicas]
        for replicas in names.members(shards=description.shards, replicas=description.replicas)
    ]
    listen, scheme, name = f"0.0.0.0:{PREDICTOR_PORT}", "HTTP", names.of(PREDICTOR)
    volumes: list[KubernetesObject] = []
    objects: list[KubernetesObject] = []
    mounts, text = {}, ""
    if predictor.tls_secret:
        scheme, mounts = "HTTPS", {"tls": TLS_DIRECTORY, "config": _CONFIG}
        own = {"store": _store_url(build), "cube": {"servers": servers, "name": description.model}}
        tls = {"certificate": f"{TLS_DIRECTORY}/tls.crt", "key": f"{TLS_DIRECTORY}/tls.key"}
        text = yaml.safe_dump({"models": {description.model: own}, "tls": tls}, sort_keys=False)
        objects.append(build.body("v1", "ConfigMap", name, PREDICTOR, {"data": {"serve.yaml": text}}))
        volumes = [
            {"name": "tls", "secret": {"secretName": predictor.tls_secret}},
            {"name": "config", "configMap": {"name": name}},
        ]
        command = description.configured_predictor(f"{_CONFIG}/serve.yaml", listen=listen)
    else:  # without TLS its options say all, and there is no file to keep
        cube = ";".join(",".join(replicas) for replicas in servers)
        command = description.predictor(store=_store_url(build), cube=cube, listen=listen)
    container = build.container(
        PREDICTOR,
        ["clickline", *command],
        predictor,
        ports={"http": PREDICTOR_PORT},
        mounts=mounts,
        probes=_probes("/v2/health/live", PREDICTOR_PORT, ready="/v2/health/ready", scheme=scheme),
    )
    pod = PodParts(containers=[container], volumes=volumes, more=spread(names.selector(PREDICTOR)))
    # An autoscaler owns the number of pods: who applies the manifest again must not take it back.
    scaled = autoscaling and predictor.max_replicas > 0
    replicas = None if scaled else predictor.replicas
    objects += _deployment(build, PREDICTOR, pod, replicas=replicas, surge=True, annotation=text)
    ports = {"http": PREDICTOR_PORT}
    selector = names.selector(PREDICTOR)
    objects.append(build.service(name, PREDICTOR, ports, selector=selector, type=predictor.service))
    if scaled:
        objects.append(_autoscaler(build))
    return objects


def client_objects(build: SuiteBuilder) -> list[KubernetesObject]:
    """A pod to ask from. It is ready when a prediction has come back through the predictor's Service."""
    url = url_of(
        build.names.host(PREDICTOR), PREDICTOR_PORT, scheme="https" if build.values.predictor.tls_secret else "http"
    )
    secret = build.values.predictor.tls_secret
    mounts, volumes = {"files": _CLIENT_FILES}, [{"name": "files", "emptyDir": {}}]
    environment = [{"name": "PREDICTOR_URL", "value": url}]
    if secret:
        mounts["tls"] = TLS_DIRECTORY
        # Its certificate alone: a client has no use for the key.
        items = [{"key": "ca.crt", "path": "ca.crt"}]
        volumes.append({"name": "tls", "secret": {"secretName": secret, "items": items}})
        environment.append({"name": "SSL_CERT_FILE", "value": f"{TLS_DIRECTORY}/ca.crt"})
    container = build.container(
        CLIENT,
        ["sh", "-c", _ASK],
        PartResources(cpu="100m", memory="512Mi"),
        mounts=mounts,
        probes={"readinessProbe": {"exec": {"command": ["test", "-e", f"{_CLIENT_FILES}/slot.conf"]}}},
        environment=environment,
    )
    # `sleep` as the first process of a container does not hear that it is to end.
    pod = PodParts(containers=[container], volumes=volumes, more={"terminationGracePeriodSeconds": 1})
    return _deployment(build, CLIENT, pod)


def _deployment(
    build: SuiteBuilder,
    part: str,
    pod: PodParts,
    *,
    replicas: int | None = 1,
    surge: bool = False,
    annotation: str = "",
) -> list[KubernetesObject]:
    """`surge`: a new pod is ready before an old one goes; else the old one is gone first, for what must be alone."""
    template = build.template(part, pod)
    if annotation:
        # Pods do not see that a file of theirs has changed, so that a change of it must be one of their template.
        template["metadata"]["annotations"] = {
            "clickline.dev/configuration": stream_sha256([annotation.encode()], limit=len(annotation) * 4)[1]
        }
    # Never fewer pods than asked for while they are replaced: requests would have nowhere to go.
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    spec: KubernetesObject = {
        "selector": {"matchLabels": build.names.selector(part)},
        "strategy": rolling if surge else {"type": "Recreate"},
        "template": template,
    }
    if replicas is not None:
        spec["replicas"] = replicas
    return [build.body("apps/v1", "Deployment", build.names.of(part), part, {"spec": spec})]


def _autoscaler(build: SuiteBuilder) -> KubernetesObject:
    predictor, name = build.values.predictor, build.names.of(PREDICTOR)
    utilization = {"type": "Utilization", "averageUtilization": predictor.target_cpu}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
        "minReplicas": predictor.replicas,
        "maxReplicas": predictor.max_replicas,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": utilization}}],
    }
    return build.body("autoscaling/v2", "HorizontalPodAutoscaler", name, PREDICTOR, {"spec": spec})


def _probes(live: str, port: int, *, ready: str, scheme: str = "HTTP") -> KubernetesObject:
    return {
        "startupProbe": http_probe(live, port, scheme=scheme, every=2, failures=STARTUP_LOOKS),
        "livenessProbe": http_probe(live, port, scheme=scheme, every=20),
        "readinessProbe": http_probe(ready, port, scheme=scheme, every=2),
    }


def _store_url(build: SuiteBuilder) -> str:
    return url_of(build.names.host(FILE_SERVER), FILE_PORT)
