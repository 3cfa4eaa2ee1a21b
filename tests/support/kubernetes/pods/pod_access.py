"""What a test learns from a pod that runs, through the API server: commands in it, and pages that it serves."""

from __future__ import annotations

from typing import Any

import httpx

from support.kubernetes.jobs_client import JobsClient


def in_pod(jobs: JobsClient, pod: str, *command: str, given: str | None = None, check: bool = True) -> str:
    """What a command in the first container of a pod prints."""
    stdin = [] if given is None else ["--stdin"]
    return jobs.kubectl("exec", *stdin, pod, "--", *command, given=given, check=check).stdout


def page_of(http: httpx.Client, jobs: JobsClient, pod: str, *, port: int, path: str) -> dict[str, Any]:
    """What a pod answers to GET; nothing if it does not."""
    answer = http.get(f"/api/v1/namespaces/{jobs.namespace}/pods/{pod}:{port}/proxy{path}")
    return dict(answer.json()) if answer.status_code == 200 else {}
