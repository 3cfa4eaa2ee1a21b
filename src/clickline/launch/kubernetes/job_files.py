"""The files of a job in pods: the job itself and the user's own code that it names, as a ConfigMap has them."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path, PurePosixPath

from clickline.config import Job
from clickline.errors import JobError
from clickline.operator.job.fields import KubernetesObject
from clickline.train.run_files.own_code import own_files

JOB_DIRECTORY, JOB_FILE = "/job", "job.yaml"
"""Where pods have them."""
_MOST_BYTES = 900_000
"""Of a ConfigMap, which may have 1 MiB with all that belongs to it."""


def job_files(job: Job, workspace: Path) -> tuple[KubernetesObject, list[KubernetesObject]]:
    """The ConfigMap's content, and where each entry is mounted: the job, and the user's own code that it names."""
    contents = {JOB_FILE: json.dumps(job.model_dump(mode="json", exclude_unset=True), indent=1).encode()}
    for place in own_files(job):
        path = PurePosixPath(place)
        if path.is_absolute() or ".." in path.parts:
            raise JobError(
                f"{place!r} is not below the workspace {workspace}, whose files pods get: write it from there, or put "
                "it into the image and name it as module:Class"
            )
        try:
            contents[str(path)] = (workspace / path).read_bytes()
        except OSError as error:
            raise JobError(f"{workspace / path}: cannot be read: {error.strerror}") from None
    size = sum(map(len, contents.values()))
    if size > _MOST_BYTES:
        raise JobError(
            f"the job and the code that it names have {size / 1e6:.1f} MB, and a ConfigMap takes "
            f"{_MOST_BYTES / 1e6:.1f}: put the code into the image, or into a volume of cluster.kubernetes.volumes"
        )
    texts, others, items = {}, {}, []
    for number, (name, content) in enumerate(contents.items()):
        key = JOB_FILE if number == 0 else f"file-{number}"  # entries may not have a slash in their names
        items.append({"key": key, "path": name})
        try:
            texts[key] = content.decode()
        except UnicodeDecodeError:
            others[key] = b64encode(content).decode()
    return {"data": texts} | ({"binaryData": others} if others else {}), items
