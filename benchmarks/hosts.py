"""Two hosts that share nothing beside one machine: rows/s, checkpoints over the network, and AUC. `make bench-hosts`.

The hosts are network namespaces of this machine with an sshd and a private file system each (as root, with iproute2 and
openssh-server), so cores and memory are the same as on one machine; what differs is that everything goes over TCP
between two addresses, and that checkpoints travel. Two servers and two trainers, one of each on a host.

throughput  rows/s of the last epoch under each strategy, over ssh beside local processes (unix sockets)
checkpoint  bytes and seconds of a checkpoint on two hosts; beside it the same bytes fetched by OpenSSH
            (`ssh HOST cat`), and the same checkpoint on one machine, into a directory that all processes share
auc         test AUC of every strategy over ssh, under mpirun and on Ray less that of local processes, means of
            as many seeds as there are rounds

Results: benchmarks/results/hosts.json and hosts.md.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline import Job
from clusters import clustered, train
from datasets import synthetic
from peers import HERE, PeerError, scratch
from rounds import Report, alternate, console
from sections import guarded, parser_for, run_sections
from strategies import SERVED, job_of

sys.path.insert(0, str(HERE.parent / "tests"))
from support.hosts.mpi_hosts import MpiHosts, unavailable  # type: ignore[import-not-found]
from support.hosts.ray_nodes import RayNodes, ray_nodes  # type: ignore[import-not-found]
from support.hosts.ssh_hosts import SshHosts, ssh_hosts  # type: ignore[import-not-found]

BATCH, EPOCHS = 1024, 2
MEGABYTES = 4096
NOISE = 0.004
"""Of the AUC between two runs of one strategy on these rows: results/strategies.md."""
SHOWN = 2000


@dataclass(frozen=True)
class FarRun:
    """What a run on two hosts came to."""

    rows_per_second: float
    auc: float
    checkpoint: Path
    seconds: float
    """That the last checkpoint took."""
    bytes: int


def main() -> None:
    if why := unavailable():
        raise PeerError(f"no hosts here: {why}")
    parser = parser_for(__doc__, example="python benchmarks/hosts.py --only checkpoint")
    parser.add_argument("--rows", type=int, default=100_000, help="synthetic rows (default %(default)s)")
    run_sections("hosts", {"throughput": throughput, "checkpoint": checkpoint, "auc": auc}, parser)


@contextmanager
def two_hosts() -> Iterator[SshHosts]:
    with scratch() as directory, ssh_hosts(directory / "ssh", megabytes=MEGABYTES) as hosts:
        yield hosts


def train_far(hosts: SshHosts, job: Job) -> FarRun:
    """Train over ssh, one server and one trainer on each host."""
    content = _content(job)
    addresses = {"one": hosts.network.one.address, "other": hosts.network.other.address}
    content["cluster"] = {
        **{name: value for name, value in content["cluster"].items() if name not in ("pservers", "trainers")},
        "hosts": [{"host": name, "address": at, "python": sys.executable} for name, at in addresses.items()],
        "root": str(hosts.private / "jobs"),
    }
    workspace = hosts.directory / "workspace"
    workspace.mkdir(exist_ok=True)
    file = workspace / "job.json"
    file.write_text(json.dumps({**content, "name": "bench"}), encoding="utf-8")
    done = hosts.run("train", file, "--on", "ssh", "--fresh", "--json", seconds=3600)
    if done.returncode:
        raise PeerError(f"clickline train --on ssh ended with {done.returncode}:\n{done.stderr[-SHOWN:]}")
    result = json.loads(done.stdout)
    status = json.loads(hosts.on("one", f"cat {result['directory']}/status.json"))
    last = result["epochs"][-1]
    return FarRun(
        rows_per_second=last["rows"] / last["seconds"],
        auc=result["test"].get("auc", float("nan")),
        checkpoint=Path(result["checkpoint"]),
        seconds=status["checkpoint"]["seconds"],
        bytes=int(hosts.on("one", f"du -sb {result['checkpoint']}").split()[0]),
    )


def throughput(report: Report, arguments: argparse.Namespace) -> None:
    rows = synthetic(arguments.rows)
    with two_hosts() as hosts:
        for strategy in SERVED:
            job = _on_one_core(
                clustered(rows.train, strategy=strategy, batch=BATCH, pservers=2, trainers=2, epochs=EPOCHS)
            )

            def near(job: Job = job) -> float:
                return train(job).rows_per_second

            def far(job: Job = job) -> float:
                return train_far(hosts, job).rows_per_second

            figures = alternate({"one machine": near, "two hosts": far}, rounds=arguments.rounds, unit="rows/s")
            report.figures |= {f"{strategy}, {name}": figure for name, figure in figures.items()}
            ratio = report.median(f"{strategy}, two hosts") / report.median(f"{strategy}, one machine")
            report.ratio(f"rows/s, {strategy}: two hosts / one machine", ratio, wanted=0.8)


def _on_one_core(job: Job) -> Job:
    """Each trainer with one thread: a host would give all of the machine's cores to its trainer."""
    return job.model_copy(update={"cluster": job.cluster.model_copy(update={"threads": 1})})


def checkpoint(report: Report, arguments: argparse.Namespace) -> None:
    rows = synthetic(arguments.rows)
    job = clustered(rows.train, strategy="async", batch=BATCH, pservers=2, trainers=2, epochs=1)
    sizes: list[int] = []
    with two_hosts() as hosts:
        last: list[FarRun] = []

        def ours() -> float:
            last[:] = [train_far(hosts, job)]
            sizes.append(last[0].bytes)
            return float(last[0].bytes / 1e6 / last[0].seconds)

        def openssh() -> float:
            return _fetch_by_ssh(hosts, last[0])

        def shared() -> float:
            seconds = float(train(job).status["checkpoint"]["seconds"])
            return float(sizes[-1] / 1e6 / seconds)

        figures = alternate(
            {"two hosts, over the wire": ours, "ssh HOST cat": openssh, "one machine, one directory": shared},
            rounds=arguments.rounds,
            unit="MB/s",
        )
    report.figures |= {f"checkpoint, {name}": figure for name, figure in figures.items()}
    size = statistics.median(sizes)
    report.figure("checkpoint, bytes", size, unit="bytes")
    for name in figures:
        report.figure(f"checkpoint, {name}, seconds", round(size / 1e6 / figures[name]["median"], 3), unit="s")
    over = report.median("checkpoint, two hosts, over the wire")
    report.ratio(
        "checkpoint, MB/s: over the wire / ssh HOST cat", over / report.median("checkpoint, ssh HOST cat"), wanted=0.5
    )
    directory = report.median("checkpoint, one machine, one directory")
    report.ratio("checkpoint, MB/s: over the wire / one directory", over / directory, wanted=0.3)


def _fetch_by_ssh(hosts: SshHosts, run: FarRun) -> float:
    """MB/s with which OpenSSH fetches the files of a checkpoint, one after the other, into a file."""
    target = hosts.directory / "fetched"
    command = f"cat {run.checkpoint}/*"
    began = time.monotonic()
    with target.open("wb") as file:
        subprocess.run(
            ["ip", "netns", "exec", hosts.client.namespace, str(hosts.directory / "ssh-of-test"), "one", command],
            stdout=file,
            check=True,
        )
    seconds = time.monotonic() - began
    size: int = target.stat().st_size
    target.unlink()
    return size / 1e6 / seconds


def auc(report: Report, arguments: argparse.Namespace) -> None:
    rows, seeds = synthetic(arguments.rows), range(1, arguments.rounds + 1)
    jobs = {(strategy, seed): job_of(rows, strategy, seed, "deepfm") for strategy in SERVED for seed in seeds}
    seen: dict[str, dict[tuple[str, int], float]] = {"local": {}, "ssh": {}, "mpi": {}, "ray": {}}

    def note(launcher: str, key: tuple[str, int], value: float) -> None:
        seen[launcher][key] = value
        console.print(f"  {launcher}, {key[0]}, seed {key[1]}: AUC {value:.4f}", highlight=False)

    with two_hosts() as hosts:
        ranks = MpiHosts(hosts, {"train": str(rows.train), "test": str(rows.test)})
        for key, job in jobs.items():
            note("local", key, train(job).test["auc"])
            note("ssh", key, train_far(hosts, job).auc)
            note("mpi", key, _auc_by_mpi(ranks, job))
    with scratch() as directory, ray_nodes() as nodes:
        for key, job in jobs.items():
            note("ray", key, _auc_by_ray(nodes, job, directory))
    for strategy in SERVED:
        means = {}
        for launcher, figures in seen.items():
            all_ = [figures[strategy, seed] for seed in seeds]
            means[launcher] = statistics.mean(all_)
            rounded = [round(value, 5) for value in all_]
            median = round(statistics.median(all_), 5)
            report.figures[f"AUC, {strategy}, {launcher}"] = {"median": median, "rounds": rounded, "unit": "test AUC"}
        for launcher in ("ssh", "mpi", "ray"):
            difference = means[launcher] - means["local"]
            report.ratio(f"AUC, {strategy}: {launcher} - local", difference, wanted=-NOISE)


def _auc_by_mpi(ranks: MpiHosts, job: Job) -> float:
    """Four ranks on the two hosts: two with a server each, two with a trainer each."""
    content = _content(job) | {"name": "bench", "data": {"train": ["train.tsv"], "test": ["test.tsv"]}}
    ranks.write_job(content | {"cluster": {"root": "jobs"}})
    return _auc_of(ranks.run("--fresh", "--json", seconds=3600), "--on mpi")


def _auc_by_ray(nodes: RayNodes, job: Job, directory: Path) -> float:
    workspace = directory / "workspace"
    workspace.mkdir(exist_ok=True)
    content = _content(job) | {"name": "bench", "output": str(directory / "runs")}
    content["cluster"] |= {"root": str(directory / "jobs")}
    file = workspace / "job.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    return _auc_of(nodes.run("train", file, "--on", "ray", "--fresh", "--json", seconds=3600), "--on ray")


def _content(job: Job) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(job.model_dump_json(exclude_unset=True))
    return content


def _auc_of(done: subprocess.CompletedProcess[str], launcher: str) -> float:
    if done.returncode:
        raise PeerError(f"clickline train {launcher} ended with {done.returncode}:\n{done.stderr[-SHOWN:]}")
    return float(json.loads(done.stdout)["test"]["auc"])


if __name__ == "__main__":
    guarded(main)
