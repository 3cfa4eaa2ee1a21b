"""What goes on while faults are injected: the suite, trainings, publications, clients. And what faults ask of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

from clickline.config import Job
from clickline.launch.suite_state import claimed
from clickline.train.session import train_job
from support.chaos.books import Books
from support.chaos.faults.fault import NotNow
from support.chaos.plan import PlannedFault
from support.chaos.presence import Presence
from support.chaos.workload import trainings as training_runs
from support.chaos.workload.disks import Disks
from support.chaos.workload.linked_suite import REPLICAS, SHARDS, LinkedSuite
from support.chaos.workload.links import Links
from support.chaos.workload.publications import DamagedVersions, Publications
from support.chaos.workload.questions import Questioner
from support.chaos.workload.trainings import TrainingRun, Trainings
from support.clusters import Parts

_LATELY = 20.0
_TRAINS_WITHIN = 30.0
_ROLES = {
    "cube": "cube server",
    "agent": "agent",
    "fileserver": "file server",
    "transfer": "transfer",
    "predictor": "predictor",
    "pserver": "parameter server",
    "trainer": "trainer",
    "coordinator": "coordinator",
    "deploy": "disk of a cube server",
    "store": "disk of the store",
    "builds": "disk of transfer",
    "runs": "disk of a training",
}
_opener = build_opener(ProxyHandler({}))


class Workload:
    """Everything by name. Made by `going_on`."""

    def __init__(self, scratch: Path, books: Books, links: Links, disks: Disks) -> None:
        self.scratch, self.books, self.links, self.disks = scratch, books, links, disks
        self.suite: LinkedSuite
        self.versions: DamagedVersions
        self.questioners: list[Questioner] = []
        self.presence: Presence
        self.publications: Publications
        self.trainings: Trainings
        self._touched: dict[str, float] = {}

    # --- asked by faults ---

    def training(self) -> TrainingRun:
        """The one that runs now."""
        current = self.trainings.current
        if current is None or current.run is None or current.ended:
            raise NotNow("nothing is trained at the moment")
        return current

    def await_training(self, over: threading.Event) -> None:
        """Wait until a run has got as far as to train, for a while: before that there is little to lose.

        And, for as long as it takes, until it has progressed since the last faults: a run that is never let come back
        says nothing, and one that hangs must not be roused by the next fault.
        """
        end = time.monotonic() + _TRAINS_WITHIN
        while not over.wait(0.1):
            current = self.trainings.current
            if current is not None and current.needs_rest:
                continue
            trains = current is not None and current.run is not None and current.run.status().get("phase") == "training"
            if trains or time.monotonic() > end:
                return

    def training_hit(self) -> None:
        """A fault is injected into the current run, or is over."""
        if (current := self.trainings.current) is not None:
            current.hit()

    def training_pid(self, name: str) -> int:
        pid = self.training().pid(name)
        if pid is None:
            raise NotNow(f"{name} does not live at the moment")
        return pid

    def training_address(self, name: str) -> str:
        """Where a parameter server listens; with a launcher that is a socket in a directory of its own."""
        run = self.training().run
        rank = int(name.rpartition(".")[2])
        if isinstance(run, Parts):
            return run.servers[rank]
        raise NotNow(f"{name} listens on a private socket")

    def touched(self, target: str) -> None:
        self._touched[target] = time.monotonic()

    def harmed_lately(self, target: str) -> bool:
        """Whether a fault has hit it within the last seconds."""
        return time.monotonic() - self._touched.get(target, -_LATELY) < _LATELY

    def label(self, fault: PlannedFault) -> str:
        """What the table calls a fault: its kind and what it hit."""
        role = fault.target.removeprefix("train.").partition(".")[0]
        return f"{fault.kind}: {_ROLES[role]}" if role in _ROLES else fault.kind

    def whole(self, lane: str) -> Callable[[], bool]:
        """When the next fault of a lane may come."""
        from support.chaos.scheduler import always

        if lane.startswith("shard "):
            shard = int(lane.removeprefix("shard "))
            return lambda: self.suite.shard_whole(shard)
        if lane == "workers":
            return self.suite.workers_whole
        return self._delivers if lane == "delivery" else always

    def _delivers(self) -> bool:
        return all(_answers(f"{self.suite.url(name)}{path}") for name, path in _DELIVERY)


_DELIVERY = (("fileserver.0", "/health"), ("transfer.0", "/dict/info"))


def _answers(url: str) -> bool:
    try:
        with _opener.open(url, timeout=3.0) as response:
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


@contextmanager
def going_on(scratch: Path, books: Books, *, seed: int, mounts: bool, say: Callable[[str], None]) -> Iterator[Workload]:
    """Everything started, in order; nothing of it is left afterwards. The caller polls `suite`, from this thread."""
    with ExitStack() as stack:
        links = stack.enter_context(Links(scratch / "links"))
        disks = Disks(scratch / "disks", usable=mounts)
        stack.callback(disks.unmount)
        workload = Workload(scratch, books, links, disks)
        state, runs = scratch / "state", scratch / "training" / "runs"
        disks.mount("store", state / "versions", megabytes=1024)
        for rank in range(SHARDS * REPLICAS):
            disks.mount(f"deploy.{rank}", state / "suite" / "cube" / f"cube.{rank}", megabytes=256)
        disks.mount("builds", state / "suite" / "cube" / "builds", megabytes=256)
        disks.mount("runs", runs, megabytes=1024)

        say("making data, and a first model")
        data = training_runs.write_data(scratch / "data", seed)
        first = training_runs.job_settings(data, scratch / "first", "first", strategy="single")
        first["cluster"] = {}
        checkpoint = train_job(Job.model_validate(first)).checkpoint
        workload.versions = DamagedVersions(state / "versions", checkpoint, seed=seed)

        say("starting the suite")
        stack.enter_context(claimed(state))
        suite = LinkedSuite(state, links, on_event=lambda event: books.event(f"suite: {event}"))
        workload.suite = stack.enter_context(suite)
        suite.cube.wait_for(1)
        suite.until(lambda: bool(suite.http), what="the predictor's first version")

        workload.presence = Presence(suite, books)
        workload.questioners = [
            Questioner(
                suite.http,
                workload.versions,
                books,
                seed=100 * seed + number,
                retries=number > 0,
                harmed=workload.presence.harmed,
            )
            for number in range(3)
        ]
        workload.publications = Publications(suite, workload.versions, workload.questioners, books, seed=seed)

        def trained(run: Path) -> None:
            workload.publications.trained = run

        workload.trainings = Trainings(data, scratch / "training", books, links, trained=trained)
        for thread in (workload.presence, *workload.questioners, workload.publications, workload.trainings):
            thread.start()
        yield workload
