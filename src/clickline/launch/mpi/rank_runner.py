"""A rank that runs what rank 0 has assigned to it, until rank 0 says that it is over, or is gone."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import msgspec

from clickline.errors import PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.hosts.host_messages import LINE_LIMIT, RunnerDone, RunnerFailed
from clickline.launch.hosts.host_runner import run_plan
from clickline.launch.hosts.launcher_watch import LauncherLost
from clickline.launch.hosts.workspace_archive import unpack
from clickline.launch.mpi.mpi_exchange import MpiExchange
from clickline.launch.mpi.rank_connections import RankSocket, connect_to_first
from clickline.launch.mpi.rank_environment import RankEnvironment, forget_rank_environment
from clickline.launch.mpi.rank_messages import RankOffer, RankRequest, RankTask
from clickline.launch.mpi.rank_preparation import prepared, problems_of_facts, problems_of_offers, share_facts

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def follow_first_rank(environment: RankEnvironment) -> None:
    """Everything that a rank other than the first does. Raises PeerError if rank 0 is lost.

    Whatever else goes wrong is for rank 0 to tell: it has heard of it by then, and its exit code is that of the run.
    A rank that ended with another code before would have mpirun kill rank 0 in the middle of its sentence.
    """
    exchange = MpiExchange(environment)
    task = _receive_task(exchange)
    exchange.close()
    forget_rank_environment()
    if task.plan is not None:
        run_task(task, rank=environment.rank)


def _receive_task(exchange: MpiExchange) -> RankTask:
    ranks = share_facts(exchange)
    # Every rank comes to the same conclusion from the same facts, so none is left waiting in the next exchange.
    if problems_of_facts(ranks):
        return RankTask()
    request = decode_json(exchange.scatter(), RankRequest)
    if request.refused:
        return RankTask()
    with prepared(request, rank=exchange.rank) as own:
        offers = [decode_json(content, RankOffer) for content in exchange.allgather(msgspec.json.encode(own))]
        if problems_of_offers(ranks, offers):
            return RankTask()
        return decode_json(exchange.scatter(), RankTask)


def run_task(task: RankTask, *, rank: int) -> None:
    """Run a plan, connected to rank 0. Returns when rank 0 has ended the connection; raises PeerError if it is lost."""
    plan = task.plan
    assert plan is not None  # noqa: S101  (a task without a plan is not run)
    token = plan.environment["CLICKLINE_TOKEN"]
    line = connect_to_first(task.address, task.port, token=token, rank=rank, within=task.patience)
    try:
        if problem := _unpacked(task, Path(plan.directory)):
            for message in (RunnerFailed(problem), RunnerDone()):
                line.send(message)
        else:
            with _told_by_first_rank(line, grace=plan.grace):
                run_plan(plan, commands=line.reader, reports=line.writer)
        # Rank 0 ends it when it has heard everything.
        line.set_timeout(plan.silence)
        with suppress(OSError, ValueError):
            while line.reader.readline(LINE_LIMIT):
                pass
    except LauncherLost:
        where = f"rank {rank} on {socket.gethostname()}"
        raise PeerError(
            f"{where}: the connection to rank 0 is lost, and all processes of this rank were stopped"
        ) from None
    finally:
        line.close()


def _unpacked(task: RankTask, directory: Path) -> str:
    """Write what the task brings along; why that failed, or nothing."""
    try:
        if task.archive:
            unpack(task.archive, directory)
        (directory / "job.yaml").write_text(task.job, encoding="utf-8")
    except (OSError, ValueError) as error:
        return f"{directory} cannot be prepared: {error}"
    return ""


@contextmanager
def _told_by_first_rank(line: RankSocket, *, grace: float) -> Iterator[None]:
    """Signals end nothing at once in here: mpirun sends them to all ranks, and rank 0 stops the others in order.

    The coordinator asks servers for a last checkpoint, which must be there then. If no word comes within `grace`, the
    connection is ended, and with it the processes.
    """
    if threading.current_thread() is not threading.main_thread():  # that of rank 0, where the main thread decides
        yield
        return
    timers: list[threading.Timer] = []

    def await_word(_number: int, _frame: FrameType | None) -> None:
        # Counted from the first signal: one that is repeated must not begin the grace anew.
        if not timers:
            timers.append(threading.Timer(grace, line.end))
            timers[0].daemon = True
            timers[0].start()

    before = {number: signal.signal(number, await_word) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for timer in timers:
            timer.cancel()
