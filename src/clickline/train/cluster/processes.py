"""One process each: a parameter server, a trainer, a coordinator, from its first to its last breath."""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
from dataclasses import fields
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.data.fitting import fit
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, JobError
from clickline.train import checkpoints
from clickline.train.api import Result
from clickline.train.cluster.affairs import released
from clickline.train.cluster.coordinating import Coordinator
from clickline.train.cluster.membership import Member
from clickline.train.cluster.metering import Meter, member_metrics
from clickline.train.cluster.places import Place
from clickline.train.cluster.serving import ParameterServer
from clickline.train.cluster.standing import FILE, Standing
from clickline.train.cluster.training import Trainer, complain
from clickline.train.resuming import check_same_job
from clickline.train.watching import Silent, Watcher

log = logging.getLogger("clickline.cluster")


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
    meter = _meter(job, member)
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
        if member.failure is not None:
            raise member.failure
        log.info("stopping: %s", member.stopping)
    finally:
        member.leave()
        if meter is not None:
            meter.close()
        server.close()
        if beside is not None:
            beside.join(10.0)
    if beside is not None and beside.failure is not None:
        raise beside.failure


def run_trainer(job: Job, place: Place) -> None:
    """Train until the coordinator says that it is over."""
    member = _member("trainer", job, place)
    trainer: Trainer | None = None
    meter: Meter | None = None
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
        meter = _meter(job, member)
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
        if meter is not None:
            meter.close()
        if trainer is not None:
            trainer.close()


def run_coordinator(
    job: Job, place: Place, *, resume: bool | Path = False, fresh: bool = False, watcher: Watcher | None = None
) -> dict[str, Any]:
    """Coordinate one run. A coordinator that was killed before it was finished is taken up where it stood."""
    coordinator = open_coordinator(
        job,
        directory=place.directory,
        address=place.bind,
        token=place.token,
        resume=resume,
        fresh=fresh,
        watcher=watcher or Silent(),
        recover=True,
    )
    try:
        found = coordinator.run()
    finally:
        coordinator.close()
    write_result(coordinator, found)
    return found


def write_result(coordinator: Coordinator, found: dict[str, Any]) -> Result:
    """Leave what a run came to, and what happened on the way, in its directory."""
    result = Result(**{field.name: found[field.name] for field in fields(Result)})
    text = json.dumps({**result.to_dict(), **coordinator.account()}, indent=1)
    (coordinator.directory / "result.json").write_text(text + "\n", encoding="utf-8")
    return result


def open_coordinator(
    job: Job,
    *,
    directory: Path,
    address: str,
    token: bytes,
    resume: bool | Path,
    fresh: bool,
    watcher: Watcher,
    warm_start: Path | None = None,
    recover: bool = False,
) -> Coordinator:
    """A coordinator that listens, standing where the run stands."""
    if not job.data.train:
        raise JobError("data.train is empty; name the files to train on, e.g. data: {train: logs/*.tsv.gz}")
    if job.tables.evict_every:
        raise JobError(
            f"tables.evict_every is {job.tables.evict_every}, but parameter servers sweep at the end of each epoch: "
            "leave it 0, or use strategy: single or collective"
        )
    directory.mkdir(parents=True, exist_ok=True)
    standing = Standing.read(directory) if recover and not fresh and not resume else None
    if standing is not None and standing.phase in ("finished", "failed"):
        standing = None
    taking_over = standing is not None
    if standing is not None:
        watcher.say(
            f"taking up the run where the coordinator before stood: epoch {standing.epoch + 1}, step {standing.step}"
        )
    else:
        standing = _standing(job, directory, resume=resume, fresh=fresh)
        standing.warm = None if warm_start is None else str(checkpoints.read(warm_start).path)
        (directory / FILE).unlink(missing_ok=True)
    if standing.checkpoint is None:
        schema_file = directory / "schema.json"
        schema = _schema(job, schema_file, known=standing.step > 0 or standing.book is not None)
    else:
        schema = Schema.from_dict(checkpoints.read(Path(standing.checkpoint)).manifest["schema"])
    return Coordinator(
        job=job,
        schema=schema,
        directory=directory,
        address=address,
        token=token,
        watcher=watcher,
        standing=standing,
        taking_over=taking_over,
    )


def _schema(job: Job, file: Path, *, known: bool) -> Schema:
    """What rows mean, fitted to the data once; a coordinator that takes over must not fit anew."""
    if known and file.is_file():
        return Schema.from_dict(json.loads(file.read_text(encoding="utf-8")))
    schema = fit(job.data, Schema.of(job.data, job.features), job.data.train, rows=job.features.fit_rows)
    file.write_text(json.dumps(schema.to_dict()), encoding="utf-8")
    return schema


def _standing(job: Job, directory: Path, *, resume: bool | Path, fresh: bool) -> Standing:
    if isinstance(resume, Path):
        old = checkpoints.read(resume)
    else:
        found = checkpoints.find(directory / "checkpoints")
        if found and not resume and not fresh:
            raise CheckpointError(
                f"{directory} already holds {len(found)} checkpoint(s), the newest of step {found[-1].step}; "
                "--resume goes on from it, --fresh throws it away, --set name=… trains elsewhere"
            )
        if fresh:
            shutil.rmtree(directory / "checkpoints", ignore_errors=True)
        if not resume or fresh:
            return Standing()
        if not found:
            raise CheckpointError(f"{directory} has no checkpoint to resume from; leave --resume out to start")
        old = found[-1]
    check_same_job(job, old.manifest["job"], where=old.path)
    if "generation" not in old.manifest["standing"]:
        raise CheckpointError(
            f"{old.path} is of a run in one process, which reads data in another order: go on with strategy: single, "
            "or begin from its weights with --warm-start"
        )
    standing = Standing.from_dict(old.manifest["standing"])
    standing.checkpoint = str(old.path)
    standing.test, standing.faults = {}, []
    if standing.book is not None:
        standing.book = released(standing.book, first=standing.next_lease, static=None).to_dict()
    return standing


class _Beside(threading.Thread):
    """The coordinator in this process: where nobody else runs one, the first server does."""

    def __init__(self, job: Job, place: Place) -> None:
        super().__init__(name="clickline-coordinator", daemon=True)
        self.failure: Exception | None = None
        self._coordinator = open_coordinator(
            job,
            directory=place.directory,
            address=place.coordinator_bind,
            token=place.token,
            resume=False,
            fresh=False,
            watcher=Silent(),
            recover=True,
        )
        self.start()

    def run(self) -> None:
        try:
            found = self._coordinator.run()
        except Exception as error:
            self.failure = error
            log.error("%s", error)
        finally:
            self._coordinator.close()
        if self.failure is None:
            write_result(self._coordinator, found)


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


def _meter(job: Job, member: Member) -> Meter | None:
    """Metrics of a process that has figures to tell, if the job wants them; it then tells where they are, too."""
    if not job.cluster.metrics:
        return None
    stats = member.stats
    meter = Meter(run=job.name, role=member.role, rank=member.rank, families=lambda make: member_metrics(make, stats()))
    member.stats = lambda: {**stats(), "metrics": meter.address}
    return meter


def _known_as(place: Place, bound: str) -> str:
    """How others reach this server: as the job's list names it; by what it bound to if that was left to it."""
    return place.pservers[place.rank] if place.rank < len(place.pservers) else bound
