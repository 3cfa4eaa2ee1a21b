"""What a cluster lacks for a job, found out and said all at once before anything is made in it."""

from __future__ import annotations

from clickline.config import Job
from clickline.config.run_location import is_elsewhere
from clickline.config.secrets.secret_checks import carries_password
from clickline.errors import JobError, PeerError
from clickline.files.storage import is_url
from clickline.launch.kubernetes.cluster_client import ClusterClient, ClusterRefusal
from clickline.launch.kubernetes.job_manifests import JOB_LABEL, RUN_LABEL, JobManifests, is_below, output_in_pods
from clickline.launch.launchers import LaunchOptions

_RIGHTS = (
    ("create", "PaddleJob", ""),
    ("get", "PaddleJob", ""),
    ("list", "PaddleJob", ""),
    ("patch", "PaddleJob", ""),
    ("delete", "PaddleJob", ""),
    ("create", "ConfigMap", ""),
    ("delete", "ConfigMap", ""),
    ("list", "Pod", ""),
    ("get", "Pod", "log"),
)
FINISHED = ("Completed", "Failed")


def check_job(job: Job) -> None:
    """Raise JobError, with everything that is wrong, unless Kubernetes can run the processes of a job."""
    problems = []
    if not job.cluster.kubernetes.image:
        problems.append(
            "cluster.kubernetes.image is not set, and pods need an image that has Clickline: `clickline image` says "
            "how to build one"
        )
    if job.cluster.hosts:
        problems.append(
            "cluster.hosts is for --on ssh: Kubernetes chooses the nodes itself; leave it out, and say how many pods "
            "there are by cluster.pservers and cluster.trainers"
        )
    if job.data.placement == "node":
        problems.append(
            "data.placement: node needs hosts that stay where they are, and Kubernetes may place a trainer on another "
            "node: expected shared or split, or --on ssh"
        )
    relative = [
        path
        for path in (*job.data.train, *job.data.valid, *job.data.test)
        if not is_url(path) and not path.startswith("/")
    ]
    if relative:
        problems.append(
            f"data: {relative[0]!r} is a path from this directory, which pods do not have: expected a URL, or an "
            "absolute path in a volume of cluster.kubernetes.volumes or in the image"
        )
    if problems:
        raise JobError(_listed(problems))


def check_beginning(job: Job, options: LaunchOptions) -> None:
    """Raise JobError, with everything that is wrong, unless pods can begin the run as it is asked for."""
    problems = []
    if options.resume is True and not output_in_pods(job)[1]:
        problems.append(
            f"--resume: output is {job.output!r}, in no volume and at no URL, so nothing is left of an earlier run: "
            "--resume-from names a checkpoint at a URL or in a volume"
        )
    given = {"--resume-from": options.resume, "--warm-start": options.warm_start}
    for option, where in given.items():
        if not isinstance(where, str) or not where:
            continue
        if carries_password(where):
            # Not repeated: it would be in the terminal's history already, and must not be in the cluster's as well.
            problems.append(f"{option}: the address holds a password; set it in a Secret of cluster.kubernetes.secrets")
        elif not is_elsewhere(where) and not any(is_below(where, one.path) for one in job.cluster.kubernetes.volumes):
            problems.append(
                f"{option}: {where!r} is a path that pods do not have: expected a URL, or a path in a volume of "
                "cluster.kubernetes.volumes; copy the checkpoint there first"
            )
    if problems:
        raise JobError(_listed(problems))


def check_cluster(client: ClusterClient, manifests: JobManifests) -> None:
    """Raise PeerError, with everything that is missing, unless the cluster can take the job."""
    namespace = manifests.namespace
    client.version()  # PeerError if nobody answers: then nothing else can be found out
    if not client.has_kind("PaddleJob"):
        raise PeerError(
            _listed(
                [
                    f"{client.access.server} knows no PaddleJobs: kubectl create -f deploy/v1/crd.yaml -f "
                    "deploy/v1/operator.yaml"
                ]
            )
        )
    lacking = [
        f"{verb} {kind.lower()}s{f'/{part}' if part else ''}"
        for verb, kind, part in _RIGHTS
        if not client.may(verb, kind, namespace, part=part)
    ]
    problems = []
    if lacking:
        problems.append(
            f"this account may not {', '.join(lacking)} in namespace {namespace!r} ({client.access.source}): ask for a "
            "Role with these verbs, or name another namespace in cluster.kubernetes.namespace"
        )
    else:
        problems += _refusals(client, manifests)
    if problems:
        raise PeerError(_listed(problems))


def _refusals(client: ClusterClient, manifests: JobManifests) -> list[str]:
    problems = []
    run = manifests.paddle_job["metadata"]["labels"][RUN_LABEL]
    for other in client.list("PaddleJob", manifests.namespace, labels=f"{RUN_LABEL}={run}"):
        phase = (other.get("status") or {}).get("phase") or "Pending"
        if phase not in FINISHED:
            started = other["metadata"]["labels"].get(JOB_LABEL, "?")
            problems.append(
                f"the run {run!r} is {phase} already, as PaddleJob {other['metadata']['name']}: `clickline stop "
                f"{started}` ends it; or choose another `name`"
            )
    for body in manifests.documents():
        try:
            client.create(body, dry_run=True)
        except ClusterRefusal as error:
            what = f"{body['kind']} {body['metadata']['name']}"
            remedy = f"kubectl -n {manifests.namespace} delete {body['kind'].lower()} {body['metadata']['name']}"
            taken = f"{what} is there already: `{remedy}`, or choose another name"
            problems.append(taken if error.is_conflict else f"{what} is refused: {error}")
    return problems


def _listed(problems: list[str]) -> str:
    return "nothing was started:\n" + "\n".join(f"  {problem}" for problem in problems)
