"""Training: a pod that leads it, with the rights to make the PaddleJob of each hour, and its job as a ConfigMap."""

from __future__ import annotations

import yaml

from clickline.deploy.objects.building_blocks import STORE, PodParts, SuiteBuilder
from clickline.deploy.objects.suite_names import TRAINING
from clickline.deploy.training_plan import PLAN_FILE, TrainingPlan
from clickline.files.digests import stream_sha256
from clickline.operator.job.fields import KubernetesObject

_CONFIG = "/job"
_RULES: list[KubernetesObject] = [
    {
        "apiGroups": ["batch.paddlepaddle.org"],
        "resources": ["paddlejobs"],
        "verbs": ["create", "get", "list", "patch", "delete"],
    },
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "delete"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
]
_TRIES = 20
"""Of the pod: it goes on where it was killed."""


def training_objects(build: SuiteBuilder, plan: TrainingPlan) -> list[KubernetesObject]:
    """The account, its rights, the plan, and the pod that carries it out."""
    names, values = build.names, build.values
    name = names.of(TRAINING)
    text = yaml.safe_dump(plan.model_dump(mode="json", exclude_defaults=True), sort_keys=False)
    account = {"kind": "ServiceAccount", "name": name, "namespace": names.namespace}
    # Only in its own namespace, and only what following a job takes: it can read no Secret and make no pod itself.
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    data = values.training.volumes
    claims = [
        {"name": f"data-{number}", "persistentVolumeClaim": {"claimName": one.claim, "readOnly": one.read_only}}
        for number, one in enumerate(data)
    ]
    container = build.container(
        TRAINING,
        ["clickline", "train-window", f"{_CONFIG}/{PLAN_FILE}"],
        values.training.publisher,
        mounts={"store": STORE, "job": _CONFIG, **{f"data-{n}": one.path for n, one in enumerate(data)}},
        token=False,
        environment=[*_environment(build), {"name": "CLICKLINE_STATE", "value": "/tmp/state"}],  # noqa: S108
    )
    pod = PodParts(
        containers=[container],
        volumes=[build.store_volume(), {"name": "job", "configMap": {"name": name}}, *claims],
        more={
            "serviceAccountName": name,
            "automountServiceAccountToken": True,
            "restartPolicy": "OnFailure",
        },
    )
    job: KubernetesObject = {"backoffLimit": _TRIES, "template": build.template(TRAINING, pod)}
    # The template of a Job cannot be changed: another plan is another Job.
    digest = stream_sha256([text.encode(), str(job).encode()], limit=1 << 22)[1][:8]
    return [
        build.body("v1", "ServiceAccount", name, TRAINING, {}),
        build.body("rbac.authorization.k8s.io/v1", "Role", name, TRAINING, {"rules": _RULES}),
        build.body(
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            name,
            TRAINING,
            {"roleRef": role, "subjects": [account]},
        ),
        build.body("v1", "ConfigMap", name, TRAINING, {"data": {PLAN_FILE: text}}),
        build.body("batch/v1", "Job", f"{name}-{digest}", TRAINING, {"spec": job}),
    ]


def _environment(build: SuiteBuilder) -> list[KubernetesObject]:
    """The publisher reads data too: the golden sample of a version is of it."""
    training = build.values.training
    plain = [{"name": key, "value": value} for key, value in training.environment.items()]
    return plain + [
        {"name": one.variable, "valueFrom": {"secretKeyRef": {"name": one.secret, "key": one.key}}}
        for one in training.secrets
    ]
