"""One process each: a parameter server, a trainer, a coordinator, from its first to its last breath."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, ReplacedError
from clickline.files.atomic import replace_json
from clickline.progress import LogOnly, Watcher
from clickline.ps.coordinator.coordinator import Coordinator
from clickline.ps.coordinator.record import Standing, StandingFile
from clickline.ps.coordinator.resumed_record import standing_in
from clickline.ps.coordinator.state import released
from clickline.ps.coordinator_client import Member
from clickline.ps.process_role import ProcessRole as Place
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.trainer import Trainer, complain
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.resume import check_same_job, checkpoint_to_resume
from clickline.train.checkpoints.warm_start import describe_start, given_start, schema_for
from clickline.train.monitoring.metrics_server import MetricsServer, metrics_place
from clickline.train.monitoring.prometheus_metrics import Labelled, member_metrics
from clickline.train.preflight import check_options
from clickline.train.run_files.run_directory import write_job
from clickline.train.run_files.run_lock import RunLock
from clickline.train.session import Result, write_result_file

log = logging.getLogger("clickline.cluster")
_GAP = 1_000_000
"""Generations and leases that a coordinator skips which does not know how many there were."""


def run_pserver(job: Job, place: Place) -> None:
    """Serve until the coordinator says that it is over."""
    import torch

    torch.set_num_threads(1)
    beside = _Beside(job, place) if place.hosts_coordinator else None
    server = ParameterServer(job=job, part=place.rank, parts=len(place.pservers), address=place.bind, token=place.token)
    member = _member("pserver", job, place, address=_known_as(place, server.wire.address))
    member.stats = server.stats
    member.on_stop = server.stopped.set
    server.writer_epoch = lambda: member.writer_epoch
    metrics = _metrics_of(job, member)
    try:
        told = member.join()
        server.set_up(
            Schema.from_dict(told["schema"]), incarnation=told["incarnation"], replaced=told["replaced_clients"]
        )
        member.introduce(generation=told["generation"])
        loads = {"generation": told["generation"], "warm": told["warm"]}
        if not told["hold"] and server.load(told["checkpoint"], **loads):
            member.ask("ready", {"client": member.client})
        log.info("serving part %d of %d at %s", place.rank, len(place.pservers), server.wire.address)
        while not server.stopped.wait(0.5):
            member.introduce(generation=server.generation)
            if beside is not None and isinstance(beside.failure, ReplacedError):
                raise beside.failure  # a coordinator that was replaced tells nobody to stop
        if member.failure is not None:
            raise member.failure
        log.info("stopping: %s", member.stopping)
    finally:
        member.leave()
        if metrics is not None:
            metrics.close()
        server.close()
        if beside is not None:
            beside.join(10.0)
    if beside is not None and beside.failure is not None:
        raise beside.failure


def run_trainer(job: Job, place: Place) -> None:
    """Train until the coordinator says that it is over."""
    member = _member("trainer", job, place)
    trainer: Trainer | None = None
    metrics: MetricsServer | None = None
    try:
        told = member.join()
        threads = place.threads or job.cluster.threads or max(1, len(os.sched_getaffinity(0)) // job.cluster.trainers)
        trainer = Trainer(
            job=job,
            schema=Schema.from_dict(told["schema"]),
            member=member,
            pservers=told["pservers"],
            token=place.token,
            threads=threads,
        )
        metrics = _metrics_of(job, member)
        log.info("training with %d thread(s), %d servers", threads, len(told["pservers"]))
        trainer.run()
        log.info("done: %s", member.stopping or "no more work")
    except Exception as error:
        if member.stopping is not None:
            log.info("stopped: %s", member.stopping)
            return
        if member.failure is not None:
            raise member.failure from error
        complain(member, error)
        raise
    finally:
        member.leave()
        if metrics is not None:
            metrics.close()
        if trainer is not None:
            trainer.close()


def run_coordinator(
    job: Job,
    place: Place,
    *,
    resume: bool | Path = False,
    fresh: bool = False,
    warm_start: Path | None = None,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """Coordinate one run. A coordinator that was killed before it was finished is taken up where it stood."""
    for notice in check_options(resume=bool(resume), fresh=fresh, warm_start=warm_start is not None):
        log.warning("%s", notice)
    with RunLock(place.directory, role="coordinator") as lock:
        coordinator = open_coordinator(
            job,
            lock=lock,
            address=place.bind,
            token=place.token,
            resume=resume,
            fresh=fresh,
            warm_start=warm_start,
            watcher=watcher or LogOnly(),
            recover=True,
        )
        try:
            found = coordinator.run()
        finally:
            coordinator.close()
        write_result(coordinator, found, lock=lock)
    return found


def write_result(coordinator: Coordinator, found: dict[str, Any], *, lock: RunLock) -> Result:
    """Leave what a run came to, and what happened on the way, in its directory."""
    result = Result(**{field.name: found[field.name] for field in fields(Result)})
    write_result_file(lock, {**result.to_dict(), **coordinator.account()})
    return result


def open_coordinator(
    job: Job,
    *,
    lock: RunLock,
    address: str,
    token: bytes,
    resume: bool | Path,
    fresh: bool,
    watcher: Watcher,
    warm_start: Path | None = None,
    recover: bool = False,
    environ: Mapping[str, str] | None = None,
) -> Coordinator:
    """A coordinator that listens, standing where the run stands."""
    directory, file = lock.directory, StandingFile(lock)
    standing, lost = None, False
    if recover and not fresh and not resume:
        standing, lost = _left(job, file, directory=directory, watcher=watcher)
    taking_over = standing is not None
    verified: set[str] = set()
    if standing is not None:
        watcher.say(
            f"taking up the run where the coordinator before stood: epoch {standing.epoch + 1}, step {standing.step}"
        )
    else:
        old = checkpoint_to_resume(directory, resume=resume, fresh=fresh)
        standing = _starting(job, directory, warm_start, watcher) if old is None else _standing(job, old)
        verified = {path for path in (standing.checkpoint or standing.warm,) if path is not None}
        for path in verified:  # nobody has loaded it yet; one that takes over verifies what it must load, when it must
            watcher.begin(f"verifying {path}")
            checkpoint_files.verify(checkpoint_files.read(Path(path)))
            watcher.end()
        file.remove()
    if standing.checkpoint is None:
        schema_file = directory / "schema.json"
        given = None if standing.warm is None else checkpoint_files.read(Path(standing.warm))
        schema = _schema(job, schema_file, given=given, known=taking_over)
    else:
        schema = Schema.from_dict(checkpoint_files.read(Path(standing.checkpoint)).manifest["schema"])
    write_job(directory, job)
    coordinator = Coordinator(
        job=job,
        schema=schema,
        directory=directory,
        address=address,
        token=token,
        watcher=watcher,
        file=file,
        standing=standing,
        taking_over=taking_over,
        environ=environ,
    )
    coordinator.verified |= verified
    coordinator.desk.stale = lost
    return coordinator


def _left(job: Job, file: StandingFile, *, directory: Path, watcher: Watcher) -> tuple[Standing | None, bool]:
    """Where a coordinator before this one stood, if it was not finished; and whether that had to be guessed."""
    try:
        standing = file.read()
    except CheckpointError as error:
        old = checkpoint_files.newest_sound(directory / "checkpoints")
        if old is None:
            raise CheckpointError(
                f"{error}; there is no sound checkpoint to go on from instead: remove it to start anew"
            ) from error
        standing = _standing(job, old)
        # Everybody who has lived on goes back to the checkpoint. Of what was numbered since, nothing may be taken for
        # something new.
        standing.generation += _GAP
        standing.next_lease += _GAP
        standing.faults.append(f"{error}; all go on from {old.path}")
        watcher.say(standing.faults[-1])
        return standing, True
    if standing is not None and standing.phase in ("finished", "failed", "interrupted"):
        return None, False
    return standing, False


def _starting(job: Job, directory: Path, warm_start: Path | None, watcher: Watcher) -> Standing:
    """Where a run begins: at the weights that it is given, if any."""
    given = given_start(directory, warm_start)
    if given is None:
        return Standing()
    watcher.say(describe_start(warm_start, given, job.tables))
    return Standing(warm=str(given.path), step=given.step, first_step=given.step, tick=given.step)


def _schema(job: Job, file: Path, *, given: checkpoint_files.Checkpoint | None, known: bool) -> Schema:
    """What rows mean, fitted to the data once; a coordinator that takes over must not fit anew."""
    if known and file.is_file():
        try:
            return Schema.from_dict(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(
                f"{file}: not readable: {error}; without it the run cannot be taken up: --fresh starts over"
            ) from error
    schema = schema_for(job, given)
    try:
        replace_json(file, schema.to_dict(), indent=None)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be written: {error}") from error
    return schema


def _standing(job: Job, old: checkpoint_files.Checkpoint) -> Standing:
    """Where a checkpoint stood."""
    check_same_job(job, old.manifest["job"], where=old.path)
    standing = standing_in(old, job=job)
    standing.checkpoint = str(old.path)
    standing.test, standing.faults = {}, []
    if standing.book is None:  # the next epoch may be cut as suits those who are here now
        standing.cut_for, standing.cut_bytes = 0, None
    else:
        standing.book = released(standing.book, first=standing.next_lease, static=None).to_dict()
    return standing


class _Beside(threading.Thread):
    """The coordinator in this process: where nobody else runs one, the first server does."""

    def __init__(self, job: Job, place: Place) -> None:
        super().__init__(name="clickline-coordinator", daemon=True)
        self.failure: Exception | None = None
        self._lock = RunLock(place.directory, role="pserver 0, the coordinator in it")
        try:
            self._coordinator = open_coordinator(
                job,
                lock=self._lock,
                address=place.coordinator_bind,
                token=place.token,
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
                found = self._coordinator.run()
            finally:
                self._coordinator.close()
            write_result(self._coordinator, found, lock=self._lock)
        except Exception as error:
            self.failure = error
            log.error("%s", error)
        finally:
            self._lock.release()


def _member(role: str, job: Job, place: Place, *, address: str = "") -> Member:
    return Member(
        role=role,
        rank=place.rank,
        coordinator=place.coordinator,
        token=place.token,
        job=job.name,
        cluster=job.cluster,
        address=address,
    )


def _metrics_of(job: Job, member: Member) -> MetricsServer | None:
    """Metrics of a process that has figures to tell, if they are wanted; it then tells where they are, too."""
    place = metrics_place(job, role=member.role, rank=member.rank)
    if place is None:
        return None
    stats = member.stats
    server = MetricsServer(
        place,
        labels=Labelled(run=job.name, role=member.role, rank=str(member.rank)),
        families=lambda make: member_metrics(make, stats()),
        complaints=lambda: [] if member.failure is None else [str(member.failure)],
    )
    member.stats = lambda: {**stats(), "metrics": server.address}
    return server


def _known_as(place: Place, bound: str) -> str:
    """How others reach this server: as the job's list names it; by what it bound to if that was left to it."""
    return place.pservers[place.rank] if place.rank < len(place.pservers) else bound
