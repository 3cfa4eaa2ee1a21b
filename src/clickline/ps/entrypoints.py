"""The processes of a run, each from start to end: a parameter server, a trainer, a coordinator."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import ReplacedError
from clickline.progress import LogOnly, Watcher
from clickline.ps.coordinator.coordinator import Coordinator
from clickline.ps.coordinator.opening import open_coordinator
from clickline.ps.coordinator_client import CoordinatorClient, MemberCallbacks
from clickline.ps.process_role import ProcessRole
from clickline.ps.protocol.member_messages import ReadyReply, ReadyRequest
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.trainer import Trainer, report_failure
from clickline.train.monitoring.metrics_server import MetricsServer, metrics_place
from clickline.train.monitoring.prometheus_metrics import Labelled, member_metrics
from clickline.train.preflight import check_options
from clickline.train.run_files.run_lock import RunLock
from clickline.train.session import Result, write_result_file

log = logging.getLogger("clickline.cluster")


def run_pserver(job: Job, role: ProcessRole) -> None:
    """Serve until the coordinator says that the run is over."""
    import torch

    torch.set_num_threads(1)
    hosted = _HostedCoordinator(job, role) if role.hosts_coordinator else None
    server = ParameterServer(job=job, part=role.rank, parts=len(role.pservers), address=role.bind, token=role.token)
    coordinator = _client(
        "pserver",
        job,
        role,
        address=_public_address(role, server.wire.address),
        callbacks=MemberCallbacks(
            stats=lambda: server.stats().figures(),
            on_stop=server.stopped.set,
            on_coordinator=server.hear_of_coordinator,
        ),
    )
    server.checkpoints.fetch_chunk = coordinator.checkpoint_chunk
    metrics = _metrics_server(job, coordinator)
    try:
        _serve(server, coordinator, hosted)
    finally:
        coordinator.leave()
        if metrics is not None:
            metrics.close()
        server.close()
        # After `leave`: the coordinator in this process waits for all members to leave, this server included.
        if hosted is not None:
            hosted.join(10.0)
    if hosted is not None and hosted.failure is not None:
        raise hosted.failure


def _serve(server: ParameterServer, coordinator: CoordinatorClient, hosted: _HostedCoordinator | None) -> None:
    """Join, load, and serve until told to stop."""
    reply = coordinator.join()
    server.set_up(Schema.from_dict(reply.schema), incarnation=reply.incarnation, replaced=reply.replaced_clients)
    coordinator.introduce(generation=reply.generation)
    sees = server.checkpoints.sees(reply.directory)
    if not reply.hold and server.load(
        reply.checkpoint, generation=reply.generation, warm=reply.warm, directory=reply.directory
    ):
        coordinator.ask(ReadyRequest(sees_directory=sees), ReadyReply)
    log.info("serving part %d of %d at %s", server.part, server.parts, server.wire.address)
    while not server.stopped.wait(0.5):
        # A rollback changes the generation without a new join. A coordinator that takes over asks for it in the next
        # join, to decide whether the tables of this server can be used.
        coordinator.introduce(generation=server.generation)
        if hosted is not None and isinstance(hosted.failure, ReplacedError):
            raise hosted.failure  # a coordinator that was replaced tells nobody to stop
    if coordinator.failure is not None:
        raise coordinator.failure
    log.info("stopping: %s", coordinator.stopping)


def run_trainer(job: Job, role: ProcessRole) -> None:
    """Train until the coordinator says that the run is over."""
    coordinator = _client("trainer", job, role)
    trainer: Trainer | None = None
    metrics: MetricsServer | None = None
    try:
        reply = coordinator.join()
        threads = role.threads or job.cluster.threads or max(1, len(os.sched_getaffinity(0)) // job.cluster.trainers)
        trainer = Trainer(
            job=job,
            schema=Schema.from_dict(reply.schema),
            coordinator=coordinator,
            pservers=reply.pservers,
            token=role.token,
            threads=threads,
        )
        metrics = _metrics_server(job, coordinator)
        log.info("training with %d thread(s), %d servers", threads, len(reply.pservers))
        trainer.run()
        log.info("done: %s", coordinator.stopping or "no more work")
    except Exception as error:
        # The announcement of the end cancels calls that are under way, so an error after it is not a failure.
        if coordinator.stopping is not None:
            log.info("stopped: %s", coordinator.stopping)
            return
        if coordinator.failure is not None:
            raise coordinator.failure from error
        report_failure(coordinator, error)
        raise
    finally:
        coordinator.leave()
        if metrics is not None:
            metrics.close()
        if trainer is not None:
            trainer.close()


def run_coordinator(
    job: Job,
    role: ProcessRole,
    *,
    resume: bool | Path = False,
    fresh: bool = False,
    warm_start: Path | None = None,
    watcher: Watcher | None = None,
) -> Result:
    """Coordinate one run. The run of a coordinator that was killed before it was finished is taken up."""
    for notice in check_options(resume=bool(resume), fresh=fresh, warm_start=warm_start is not None):
        log.warning("%s", notice)
    with RunLock(role.directory, role="coordinator") as lock:
        coordinator = open_coordinator(
            job,
            lock=lock,
            address=role.bind,
            token=role.token,
            resume=resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher or LogOnly(),
            recover=True,
        )
        try:
            result = coordinator.run()
        finally:
            coordinator.close()
        write_result(coordinator, result, lock=lock)
    return result


def write_result(coordinator: Coordinator, result: Result, *, lock: RunLock) -> None:
    """Write what a run came to, and what happened on the way, to its directory."""
    write_result_file(lock, {**result.to_dict(), **coordinator.account()})


class _HostedCoordinator(threading.Thread):
    """The coordinator in the process of the first server, for jobs that name no other."""

    def __init__(self, job: Job, role: ProcessRole) -> None:
        super().__init__(name="clickline-coordinator", daemon=True)
        self.failure: Exception | None = None
        self._lock = RunLock(role.directory, role="pserver 0, the coordinator in it")
        try:
            self._coordinator = open_coordinator(
                job,
                lock=self._lock,
                address=role.coordinator_bind,
                token=role.token,
                resume=False,
                fresh=False,
                watcher=LogOnly(),
                recover=True,
                environ={},  # the environment is about the server
            )
        except BaseException:
            self._lock.release()
            raise
        self.start()

    def run(self) -> None:
        try:
            try:
                result = self._coordinator.run()
            finally:
                self._coordinator.close()
            write_result(self._coordinator, result, lock=self._lock)
        except Exception as error:
            self.failure = error
            log.error("%s", error)
        finally:
            self._lock.release()


def _client(
    name: str, job: Job, role: ProcessRole, *, address: str = "", callbacks: MemberCallbacks | None = None
) -> CoordinatorClient:
    return CoordinatorClient(
        role=name,
        rank=role.rank,
        coordinator=role.coordinator,
        token=role.token,
        job=job.name,
        cluster=job.cluster,
        address=address,
        callbacks=callbacks,
    )


def _metrics_server(job: Job, coordinator: CoordinatorClient) -> MetricsServer | None:
    """Prometheus metrics of this process, if they are wanted; the coordinator is told where they are."""
    address = metrics_place(job, role=coordinator.role, rank=coordinator.rank)
    if address is None:
        return None
    server = MetricsServer(
        address,
        labels=Labelled(run=job.name, role=coordinator.role, rank=str(coordinator.rank)),
        families=lambda make: member_metrics(make, coordinator.stats()),
        complaints=lambda: [] if coordinator.failure is None else [str(coordinator.failure)],
    )
    coordinator.report_also({"metrics": server.address})
    return server


def _public_address(role: ProcessRole, bound: str) -> str:
    """How others reach this server: as the job's list names it; by what it bound to if that was left to it."""
    return role.pservers[role.rank] if role.rank < len(role.pservers) else bound
