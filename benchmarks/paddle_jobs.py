"""The PaddleJob operator: time until all pods are created, and API calls per job. `make bench-operator`.

A real API server without nodes, on the same cores, and one operator process with the rights that deploy/v1 gives it.
1, 10, 50 and 200 jobs are applied at once. Each job has two servers and two workers. Beside it, in turns, a bare
client that creates the same pods by as many connections as the operator has, and nothing else: no status, no events,
no tokens.

benchmarks/operator_limits.json has the limits; if one is exceeded, this exits with 1.
Results: benchmarks/results/operator.json and operator.md.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from rich.progress import Progress

from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.reconcile.plan import Observed, ReconcileSettings
from clickline.operator.reconcile.reconcile import reconcile
from peers import HERE, PeerError, scratch
from rounds import Report, console
from sections import guarded, parser_for

sys.path.insert(0, str(HERE.parent / "tests"))
from support.kubernetes.api_server import TestCluster, test_cluster  # type: ignore[import-not-found]
from support.kubernetes.jobs_client import JobsClient, paddle_job, role  # type: ignore[import-not-found]
from support.kubernetes.operator_process import operator_process  # type: ignore[import-not-found]
from support.ports import port_range  # type: ignore[import-not-found]

SIZES = (1, 10, 50, 200)
PODS = 4
CONNECTIONS = 16
"""Of the operator to the API server, and so of the bare client."""
PATIENCE = 300.0
DEPLOY = HERE.parent / "deploy" / "v1"
LIMITS = HERE / "operator_limits.json"
PUBLISHED = {
    "published for Kueue, on larger machines: workloads": 43.0,
    "published for KubeRay, on larger machines: pods": 50.0,
}


def job(name: str, namespace: str) -> dict[str, Any]:
    body: dict[str, Any] = paddle_job(name, ps=role(2), worker=role(2))
    body["metadata"]["namespace"] = namespace
    return body


class ApiServer:
    """An API server in which the operator is installed, and the figures that both tell."""

    def __init__(self, cluster: TestCluster, metrics_port: int) -> None:
        self._cluster, self._metrics_port = cluster, metrics_port
        settings = yaml.safe_load(cluster.kubeconfig.read_text(encoding="utf-8"))
        self.url = settings["clusters"][0]["cluster"]["server"]
        self.headers = {"Authorization": f"Bearer {settings['users'][0]['user']['token']}"}
        self._http = httpx.Client(base_url=self.url, headers=self.headers, verify=False, timeout=60, trust_env=False)  # noqa: S501

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """A namespace for one measurement; what is in it is deleted at the end, since nobody collects it here."""
        self._http.post("/api/v1/namespaces", json={"metadata": {"name": name}}).raise_for_status()
        yield name
        self._http.delete(f"/apis/batch.paddlepaddle.org/v1/namespaces/{name}/paddlejobs")
        self._http.request("DELETE", f"/api/v1/namespaces/{name}/pods", params={"gracePeriodSeconds": "0"})
        self.calls()

    def apply(self, namespace: str, count: int) -> None:
        def create(number: int) -> None:
            path = f"/apis/batch.paddlepaddle.org/v1/namespaces/{namespace}/paddlejobs"
            self._http.post(path, json=job(f"job-{number}", namespace)).raise_for_status()

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(create, range(count)))

    def pods(self, namespace: str) -> int:
        """How many there are, without having them all sent."""
        page = self._http.get(f"/api/v1/namespaces/{namespace}/pods", params={"limit": "1"}).json()
        return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)

    def until_pods(self, namespace: str, count: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.pods(namespace) < count:
            if time.monotonic() > deadline:
                raise PeerError(f"{self.pods(namespace)} of {count} pods were created in {PATIENCE:.0f} s")
            time.sleep(0.02)

    def calls(self) -> float:
        """Requests that the operator has made so far, once it makes none for a second."""
        before = -1.0
        while (now := self._calls()) != before:
            before = now
            time.sleep(1.0)
        return now

    def wait_for_operator(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                self.calls()
                return
            except httpx.TransportError:
                time.sleep(0.1)
        raise PeerError("the operator did not start")

    def _calls(self) -> float:
        text = httpx.get(f"http://127.0.0.1:{self._metrics_port}/metrics", trust_env=False).text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "clickline_operator_api_requests_total"
        )


@contextmanager
def operated() -> Iterator[ApiServer]:
    port = port_range(1)
    with scratch() as directory:
        try:
            with test_cluster(directory) as cluster, JobsClient(cluster, "default") as client:
                files = [word for name in ("crd", "operator") for word in ("-f", str(DEPLOY / f"{name}.yaml"))]
                client.kubectl("apply", *files, namespaced=False)
                client.kubectl("wait", "--for=condition=Established", "crd/paddlejobs.batch.paddlepaddle.org")
                log = directory / "operator.log"
                with operator_process(cluster, log, "--health", f"127.0.0.1:{port}"):
                    server = ApiServer(cluster, port)
                    server.wait_for_operator()
                    yield server
        except pytest.skip.Exception as error:
            raise PeerError(f"no cluster here: {error}") from None


def by_operator(server: ApiServer, count: int, *, number: int) -> tuple[float, float]:
    """Seconds until all pods are created, and requests for each job."""
    with server.namespace(f"operator-{count}-{number}") as namespace:
        before, begun = server.calls(), time.monotonic()
        server.apply(namespace, count)
        server.until_pods(namespace, PODS * count)
        seconds = time.monotonic() - begun
        return seconds, (server.calls() - before) / count


def by_bare_client(server: ApiServer, count: int, *, number: int) -> float:
    """Seconds in which a client that does nothing else creates the same pods."""
    with server.namespace(f"bare-{count}-{number}") as namespace:
        bodies = [body for index in range(count) for body in pods_of(f"job-{index}", namespace)]
        begun = time.monotonic()
        asyncio.run(create_all(server, namespace, bodies))
        return time.monotonic() - begun


def pods_of(name: str, namespace: str) -> list[dict[str, Any]]:
    body = job(name, namespace)
    body["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000"
    observed = Observed(job=PaddleJob.from_object(body))
    plan = reconcile(observed, settings=ReconcileSettings(), now=datetime.now(UTC))
    return [one for one in plan.creations if one["kind"] == "Pod"]


async def create_all(server: ApiServer, namespace: str, bodies: list[dict[str, Any]]) -> None:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS, ssl=False)
    async with aiohttp.ClientSession(connector=connector, headers=server.headers) as session:

        async def create(body: dict[str, Any]) -> None:
            async with session.post(f"{server.url}/api/v1/namespaces/{namespace}/pods", json=body) as answer:
                answer.raise_for_status()

        await asyncio.gather(*map(create, bodies))


def measure(report: Report, *, rounds: int) -> None:
    seconds: dict[int, list[float]] = {count: [] for count in SIZES}
    calls: dict[int, list[float]] = {count: [] for count in SIZES}
    bare: list[float] = []
    with operated() as server, Progress(console=console) as progress:
        bar = progress.add_task("rounds", total=rounds * (len(SIZES) + 1))
        for number in range(rounds):
            for count in SIZES:
                progress.update(bar, description=f"round {number + 1}, {count} jobs by the operator")
                one, requests = by_operator(server, count, number=number)
                seconds[count].append(one)
                calls[count].append(requests)
                progress.advance(bar)
            progress.update(bar, description=f"round {number + 1}, the same pods by a bare client")
            bare.append(by_bare_client(server, SIZES[-1], number=number))
            progress.advance(bar)
    for count in SIZES:
        rates = [PODS * count / one for one in seconds[count]]
        note(report, f"{count} jobs, from apply to all pods created", seconds[count], unit="s")
        note(report, f"{count} jobs, pods created", rates, unit="pods/s")
        note(report, f"{count} jobs, API calls", calls[count], unit="calls per job")
    note(report, "bare client, the pods of 200 jobs", [PODS * SIZES[-1] / one for one in bare], unit="pods/s")
    for name, value in PUBLISHED.items():
        report.figure(name, value, unit="1/s")


def note(report: Report, name: str, rounds: list[float], *, unit: str) -> None:
    report.figures[name] = {
        "median": round(statistics.median(rounds), 3),
        "rounds": [round(one, 3) for one in rounds],
        "unit": unit,
    }


def judge(report: Report, limits: dict[str, float]) -> list[str]:
    """Set the figures beside the limits; a sentence for each that is exceeded."""
    longest = limits["seconds until all pods of 200 jobs are created"]
    slowest = limits["pods per second, 200 jobs"]
    growth = limits["growth of API calls per job from 1 to 200 jobs"]
    per_job = {count: report.median(f"{count} jobs, API calls") for count in SIZES}
    rate = report.median("200 jobs, pods created")
    taken = report.median("200 jobs, from apply to all pods created")
    report.ratio(f"{longest:g} s / seconds of 200 jobs", longest / taken, wanted=1)
    report.ratio(f"pods/s of 200 jobs / {slowest:g}", rate / slowest, wanted=1)
    report.ratio("API calls per job: of 1 job / of 200 jobs", per_job[1] / per_job[200], wanted=round(1 / growth, 4))
    bare = report.median("bare client, the pods of 200 jobs")
    report.ratio("pods/s of 200 jobs: operator / bare client", rate / bare, wanted=0.15)
    return [
        f"{name}: {value:.4g}, at least {report.wanted[name]:g} is wanted"
        for name, value in report.ratios.items()
        if value < report.wanted[name]
    ]


def main() -> None:
    parser = parser_for(__doc__, example="python benchmarks/paddle_jobs.py --rounds 1")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each size (default %(default)s)")
    arguments = parser.parse_args()
    report = Report("operator")
    measure(report, rounds=arguments.rounds)
    exceeded = judge(report, json.loads(LIMITS.read_text(encoding="utf-8")))
    report.finish()
    if exceeded:
        sys.exit(f"beyond {Path(LIMITS).name}: " + "; ".join(exceeded))


if __name__ == "__main__":
    guarded(main)
