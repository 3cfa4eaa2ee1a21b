"""Manifests of a submission for a Kubernetes cluster with paddle-operator: a PaddleJob, and its files in a ConfigMap.

They are written into the folder and made from there, edited or not. Pods read their roles from the variables that the
operator sets.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

from clickline.compat.paddlerec.submission.config_ini import MOUNT
from clickline.compat.paddlerec.submission.job_script import NAME as JOB_SCRIPT
from clickline.compat.paddlerec.submission.submission import Submission, refusal_of
from clickline.errors import JobProblem
from clickline.files.storage import is_url

_MOST_BYTES = 900_000
"""Of a ConfigMap, which may have 1 MiB with all that belongs to it."""
_FILES, _WORK = "/submission", "/workspace"
_HEAD = """\
# A PaddleJob, and the files of this folder, which `clickline submit` makes in the cluster. Credentials of pods, such as
# CLICKLINE_FS_UGI, and under another operator than Clickline's CLICKLINE_TOKEN (`openssl rand -hex 32`), are lines
# NAME=VALUE of a file that only you can read:
#
#   kubectl create secret generic {secret} --from-env-file=FILE
"""


def resource_name(text: str) -> str:
    """A name that Kubernetes takes."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:50].strip("-") or "clickline"


def manifests(submission: Submission, folder: Path) -> str:
    """The text of all manifests. Raises JobError if the files are too large for a ConfigMap."""
    options, job = submission.options, submission.job
    name = resource_name(options.job_name)
    files = {path.name: path for path in sorted(folder.iterdir()) if path.is_file() and path.name != JOB_SCRIPT}
    size = sum(path.stat().st_size for path in files.values())
    if size > _MOST_BYTES:
        message = f"{size / 1e6:.1f} MB, and a ConfigMap takes {_MOST_BYTES / 1e6:.1f}: put large files into the image"
        raise refusal_of([JobProblem("submit.files", message)])
    metadata = {"name": f"{name}-files"}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **_file_contents(files)}
    collective = job.strategy == "collective"
    cards = max(1, options.gpu_cards) if collective else 0
    trainers = max(1, options.trainers or options.nodes)
    spec: dict[str, Any] = {"cleanPodPolicy": "Never", "intranet": "PodIP"}
    if job.resolved_strategy not in ("collective", "single"):
        spec |= {"withGloo": 1, "ps": _role(submission, name, job.cluster.pservers, cores=options.server_cores)}
    spec["worker"] = _role(submission, name, trainers, cores=options.trainer_cores, gpus=cards)
    paddle_job = {
        "apiVersion": "batch.paddlepaddle.org/v1",
        "kind": "PaddleJob",
        "metadata": {"name": name},
        "spec": spec,
    }
    documents = yaml.safe_dump_all([config, paddle_job], sort_keys=False, allow_unicode=True, width=110)
    return _HEAD.format(secret=f"{name}-credentials") + documents


def _file_contents(files: Mapping[str, Path]) -> dict[str, dict[str, str]]:
    """As a ConfigMap has them: text, and what is not text in base64."""
    texts, others = {}, {}
    for name, path in files.items():
        content = path.read_bytes()
        try:
            texts[name] = content.decode()
        except UnicodeDecodeError:
            others[name] = b64encode(content).decode()
    return {"data": texts} | ({"binaryData": others} if others else {})


def _role(submission: Submission, name: str, replicas: int, *, cores: int, gpus: int = 0) -> dict[str, Any]:
    limits: dict[str, Any] = {"cpu": cores} if cores else {}
    if gpus:
        limits["nvidia.com/gpu"] = gpus
    hooks = [f"sh {hook}" if hook else "true" for hook in (submission.before, submission.after)]
    options, start = submission.options, submission.start
    run = replace(
        start,
        paddle_overrides=[*start.paddle_overrides, *options.paddle_overrides],
        overrides=[*start.overrides, *options.overrides],
    )
    command = f"cp -L {_FILES}/* . && {hooks[0]} && {run.on_node()} && {hooks[1]}"
    work = f"{_WORK}/{options.model_directory}".rstrip("/")  # PaddleRec's models are known by their directories
    mounts = [{"name": "files", "mountPath": _FILES}, {"name": "work", "mountPath": work}]
    volumes: list[dict[str, Any]] = [
        {"name": "files", "configMap": {"name": f"{name}-files"}},
        {"name": "work", "emptyDir": {}},
    ]
    if path := submission.config.url("afs_remote_mount_point"):
        mounts.append({"name": MOUNT, "mountPath": f"{work}/{MOUNT}"})
        # Kubernetes mounts no URL by itself: the claim is of a volume that leads to it.
        source = {"persistentVolumeClaim": {"claimName": f"{name}-{MOUNT}"}}
        volumes.append({"name": MOUNT, **(source if is_url(path) else {"hostPath": {"path": path}})})
    environment = submission.environment
    container = {
        "name": "clickline",
        "image": options.image or f"clickline:{version('clickline')}",
        "workingDir": work,
        "command": ["sh", "-c", command],
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "envFrom": [{"secretRef": {"name": f"{name}-credentials", "optional": True}}],
        **({"resources": {"requests": limits, "limits": limits}} if limits else {}),
        "volumeMounts": mounts,
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container], "volumes": volumes}}
    return {"replicas": replicas, "template": template}
