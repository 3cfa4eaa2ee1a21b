"""Many processes: how many of each, how they find each other, how patient they are with each other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from clickline.config import durations
from clickline.config.hosts import Host
from clickline.config.kubernetes import KubernetesPods
from clickline.config.section import Section

Strategy = Literal["auto", "single", "sync", "async", "half_async", "geo", "collective"]
_Bounded = Annotated[float, Field(gt=0, le=10**6)]
Seconds = Annotated[_Bounded, BeforeValidator(durations.seconds, json_schema_input_type=_Bounded | durations.Text)]


class StrategyOptions(Section):
    """Options of the strategies: how trainers agree."""

    prefetch: Annotated[int, Field(ge=0, le=64)] = 0
    """async, half_async: batches whose rows are pulled ahead of computing: hides a slow network, stales rows, and costs
    AUC (benchmarks/results/knob-prefetch.md)."""
    send_queue: Annotated[int, Field(ge=1, le=1024)] = 1
    """async: batches whose gradients may wait to be sent; a trainer that is further ahead waits."""
    merge: Annotated[int, Field(ge=1, le=1024)] = 1
    """half_async: batches whose gradients are merged before they are sent: more spare the network, and stale rows."""
    max_staleness: Annotated[int, Field(ge=0, le=10**9)] = 0
    """async, half_async: gradients computed from rows that have seen this many pushes since are dropped and counted.
    0 = never."""
    damping: Annotated[float, Field(ge=0, le=1)] = 0.5
    """async, half_async: rows learn from a gradient that s pushes have overtaken at (1 + s)^-damping of their rate.
    Tables under ftrl, which takes staleness well, always learn at all of it."""
    geo_steps: Annotated[int, Field(ge=1, le=10**6)] = 10
    """geo: steps that a trainer takes on its own copy between two exchanges."""
    dense_every: Annotated[int, Field(ge=1, le=10**6)] = 1
    """async, half_async: pushes between two pulls of the dense parameters."""


class Cluster(Section):
    pservers: Annotated[int, Field(ge=0, le=4096)] = 0
    """Parameter servers to start; 0 with one trainer trains in one process."""
    trainers: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Trainers to start; more may join and any may leave while training goes on."""
    agree: StrategyOptions = StrategyOptions()
    """Options of the strategies."""
    wire: Literal["fp32", "fp16", "bf16"] = "fp32"
    """Numbers between trainers and servers while training: rows, dense parameters and the gradients of both, under
    every strategy with servers. Servers keep, add up, evaluate and save 32 bits; keys and counts go as they are."""
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address that processes started here listen on when they use TCP."""
    transport: Literal["unix", "tcp"] = "unix"
    """How processes on one machine talk; across machines it is always tcp."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    """Threads for dense maths in each trainer. 0 = the machine's cores divided by the trainers started on it."""
    hosts: list[Host] = []
    """Hosts on which a launcher starts the processes (clickline train --on ssh). The first one has the coordinator and
    the run's directory; servers and trainers are as many as the hosts have. Under --on mpi, what the ranks on each
    host run."""
    root: Annotated[str, Field(min_length=1)] = "~/clickline-jobs"
    """Directory on each host below which a job has its own, JOB and the time."""
    port: Annotated[int, Field(ge=0, le=65_000)] = 0
    """First of the ports that processes listen on there; 0 = any that are free."""
    kubernetes: KubernetesPods = KubernetesPods()
    """Pods that clickline train --on kubernetes makes, one for each server and trainer."""
    heartbeat: Seconds = 1.0
    """Seconds between heartbeats."""
    warn_after: Seconds = 10.0
    """Silence after which a process is reported as slow."""
    evict_after: Seconds = 30.0
    """Silence after which a trainer is taken for dead and its data goes to others."""
    start_timeout: Seconds = 60.0
    """How long to wait for all processes at the start, and for one that is missing later."""
    deadline: Seconds = 30.0
    """How long one request may take before it is tried again."""
    retry_for: Seconds = 120.0
    """How long a request is tried again, with growing pauses, before the process gives up."""
    restarts: Annotated[int, Field(ge=0, le=10_000)] = 3
    """How often the launcher starts a process again that died."""
    piece_bytes: Annotated[int, Field(ge=0, le=1 << 40)] = 0
    """Size of the pieces of data that are leased to trainers. 0 = eight pieces for each trainer, 1 to 64 MiB each."""
    piece_attempts: Annotated[int, Field(ge=1, le=1000)] = 3
    """Trainers that a piece may take down before it is set aside and reported."""
    metrics: bool = False
    """Whether every process of the run answers Prometheus and reports its health, on a port of its own, whatever
    the strategy; `clickline status` shows the addresses."""
    metrics_host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    """Address of this machine on which it does so. Everything that can reach it can read it."""
    metrics_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of the process that knows the run: the coordinator, the one process, or rank 0. Servers and trainers have
    the ports after it, by their ranks. 0 = any free ones."""
