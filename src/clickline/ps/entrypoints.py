"""Processes of a run, each from start to end: a parameter server, a trainer."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import DataError, ReplacedError
from clickline.ps.coordinator.coordinator_run import CoordinatorThread, beginning_of
from clickline.ps.coordinator_client import CoordinatorClient, MemberCallbacks
from clickline.ps.initial_model import InitialModel
from clickline.ps.member_http import open_member_http
from clickline.ps.process_role import ProcessRole
from clickline.ps.protocol.member_messages import ReadyReply, ReadyRequest
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.node_data import NodeData, look_at_node
from clickline.train.monitoring.loop_liveness import LoopLiveness, longest_turn

log = logging.getLogger("clickline.cluster")
_LONGEST_TURN = 60.0
"""Seconds for one turn of a server's loop, which takes half of one."""


def run_pserver(
    job: Job,
    role: ProcessRole,
    *,
    resume: bool | str | Path = False,
    fresh: bool = False,
    warm_start: str | Path | None = None,
) -> None:
    """Serve until the coordinator says that the run is over. How the run begins counts where this is server 0.

    All servers of a launcher that knows only roles have the same options: those without the coordinator need none.
    """
    hosted: CoordinatorThread | None = None
    if role.hosts_coordinator:
        beginning = beginning_of(role, resume=resume, fresh=fresh, warm_start=warm_start)
        if beginning is None:
            return
        hosted = CoordinatorThread(job, role, beginning)
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
    server.checkpoints.fetch_chunk, server.fetch_model = coordinator.checkpoint_chunk, coordinator.model
    loop = LoopLiveness("the server's loop", limit=_LONGEST_TURN)
    http = open_member_http(
        job,
        coordinator,
        loop=loop,
        not_serving=lambda: [] if server.loaded else [f"{server.name} has loaded nothing yet"],
        hosted=None if hosted is None else hosted.coordinator,
    )
    try:
        _serve(server, coordinator, hosted, loop)
    finally:
        loop.ended()
        coordinator.leave()
        if http is not None:
            http.close()
        server.close()
        # After `leave`: the coordinator in this process waits for all members to leave, this server included.
        if hosted is not None:
            hosted.join(10.0)
    if hosted is not None and hosted.failure is not None:
        raise hosted.failure


def _serve(
    server: ParameterServer, coordinator: CoordinatorClient, hosted: CoordinatorThread | None, loop: LoopLiveness
) -> None:
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
        loop.turned()
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
    # PyTorch, which of the processes here only a trainer needs.
    from clickline.ps.trainer.built_model import BuiltModel
    from clickline.ps.trainer.trainer import Trainer, report_failure

    built = BuiltModel(job)
    coordinator = _client("trainer", job, role, describe_model=built.initial)
    loop = LoopLiveness("the training loop", limit=longest_turn(job.cluster.retry_for))
    trainer: Trainer | None = None
    http = open_member_http(job, coordinator, loop=loop)
    try:
        # Joined even if there is no data here, so that the coordinator hears why the run cannot go on.
        data = _look_at_node(job, role.node)
        coordinator.introduce(files=data.files if isinstance(data, NodeData) else None)
        reply = coordinator.join()
        if not isinstance(data, NodeData):
            raise data
        threads = role.threads or job.cluster.threads or max(1, len(os.sched_getaffinity(0)) // job.cluster.trainers)
        schema = Schema.from_dict(reply.schema)
        trainer = Trainer(
            job=job,
            schema=schema,
            model=built.model(schema),
            coordinator=coordinator,
            pservers=reply.pservers,
            token=role.token,
            threads=threads,
            data=data,
            loop=loop,
        )
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
        loop.ended()
        coordinator.leave()
        if http is not None:
            http.close()
        if trainer is not None:
            trainer.close()


def _look_at_node(job: Job, node: int) -> NodeData | DataError:
    try:
        return look_at_node(job, node=node)
    except DataError as error:
        return error


def _client(
    name: str,
    job: Job,
    role: ProcessRole,
    *,
    address: str = "",
    callbacks: MemberCallbacks | None = None,
    describe_model: Callable[[Schema], InitialModel] | None = None,
) -> CoordinatorClient:
    return CoordinatorClient(
        role=name,
        rank=role.rank,
        node=role.node,
        coordinator=role.coordinator,
        token=role.token,
        job=job.name,
        cluster=job.cluster,
        address=address,
        callbacks=callbacks,
        describe_model=describe_model,
    )


def _public_address(role: ProcessRole, bound: str) -> str:
    """How others reach this server: as the job's list names it; by what it bound to if that was left to it."""
    return role.pservers[role.rank] if role.rank < len(role.pservers) else bound
