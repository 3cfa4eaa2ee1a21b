"""Versions without end: bases, deltas, rollbacks, publications of what was trained, and now and then a damaged one.

Each is waited for until clients have got answers of it: one that never comes is a lost delivery. Where there is no
room on the store's disk nothing is published, and it is tried again.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clickline.errors import ClicklineError
from clickline.publish.parity import Published
from clickline.versions import donefile
from clickline.versions.donefile import directory_of
from clickline.versions.maintenance import rollback
from clickline.versions.manifest import MANIFEST, Manifest
from clickline.versions.store import open_store
from support.bit_flips import BitFlip, flip_in_any_of
from support.chaos.books import Books
from support.chaos.workload.linked_suite import LinkedSuite
from support.chaos.workload.questions import Questioner
from support.processes import ENVIRONMENT
from support.versions.model_versions import ModelVersions

DELIVERY_PATIENCE = 120.0
"""Seconds after which a delivery that has not been seen is lost."""
_NOTICE_WITHIN = 8.0
"""Seconds for which a damaged version is left as it is, unless somebody complains before."""
_PAUSE = (0.2, 1.5)


class DamagedVersions(ModelVersions):
    """Versions whose files can be damaged in the instant before they are announced."""

    damage: Callable[[Path], None] | None = None

    def _announce(self, folder: Path, manifest: Manifest, published: Published) -> None:
        self._expected[manifest.version] = published.predict(self._batch)[:, 0]
        if self.damage is not None:
            self.damage(folder)
        super()._announce(folder, manifest, published)

    def forget(self, version: int) -> None:
        """It was not announced; another may get its number."""
        self._expected.pop(version, None)


class Publications(threading.Thread):
    """One at a time, until it is told to end."""

    def __init__(
        self, suite: LinkedSuite, versions: DamagedVersions, questioners: list[Questioner], books: Books, *, seed: int
    ) -> None:
        super().__init__(name="publications", daemon=True)
        self._suite, self._versions, self._questioners, self._books = suite, versions, questioners, books
        self._random = random.Random(f"{seed} publications")
        self._over = threading.Event()
        self._store = open_store(versions.path)
        self.trained: Path | None = None
        """The newest run that has ended; published once."""
        self.publishing: Path | None = None
        """The run that is published at the moment."""
        self.thrown_away: set[Path] = set()
        """Runs that ended well and that `train --fresh` has begun again since."""
        self.publisher: subprocess.Popen[str] | None = None
        """The process that publishes at the moment, for those who would kill it."""
        self.flips_wanted = threading.Semaphore(0)
        self.flip_outcomes: list[str] = []
        self.flipped = threading.Condition()

    def run(self) -> None:
        while not self._over.wait(self._random.uniform(*_PAUSE)):
            try:
                self._publish_one()
            except Exception as error:
                self._books.promise_broken("publications go on", repr(error))
                self._over.wait(2.0)

    def end(self) -> None:
        """After the delivery that is under way."""
        self._over.set()
        self.join()

    def last_one(self) -> None:
        """When no more faults come: one more version, which must be served."""
        before = self._seen()
        version = self._written(self._versions.delta)
        if version:
            self._await(version, "last", before)

    def _publish_one(self) -> None:
        if self.flips_wanted.acquire(blocking=False):
            self._publish_damaged()
            return
        run, self.trained = self.trained, None
        if run is not None:
            self._publish_trained(run)
            return
        kind = self._random.choices(["base", "delta", "rollback", "transfer's rollback"], [15, 60, 15, 10])[0]
        before = self._seen()
        version = {
            "base": lambda: self._written(self._versions.base),
            "delta": lambda: self._written(self._versions.delta),
            "rollback": self._rolled_back,
            "transfer's rollback": self._rolled_back_by_transfer,
        }[kind]()
        if version:
            self._await(version, kind, before)

    def _written(self, write: Callable[[], int]) -> int:
        """Zero if there was no room."""
        number = self._versions.last + 1
        try:
            return write()
        except (OSError, RuntimeError) as error:  # native code raises RuntimeError
            if not isinstance(error, OSError) and "No space left" not in str(error):
                raise
            self._books.count(publications_refused=1)
            self._books.event(f"version {number} was not published: {error}")
            if self._versions.last < number:  # a real publisher writes aside; this one cleans up behind itself
                self._versions.forget(number)
                shutil.rmtree(self._versions.path / directory_of(number), ignore_errors=True)
                self._over.wait(0.5)
                return 0
            return number

    def _rolled_back(self) -> int:
        try:
            return rollback(self._store)[0]
        except ClicklineError:  # there is nothing before it
            return 0
        except OSError as error:
            self._books.event(f"no rollback: {error.strerror}")
            return 0

    def _rolled_back_by_transfer(self) -> int:
        import httpx

        headers = {"Authorization": f"Bearer {self._suite.token}"}
        try:
            with httpx.Client(trust_env=False, timeout=10.0) as client:
                answer = client.post(f"{self._suite.cube.url}/rollback", json={}, headers=headers).json()
        except (httpx.HTTPError, ValueError, ClicklineError) as error:
            self._books.event(f"transfer did not answer: {error!r}")
            return 0
        return int(answer["data"]["version"]) if answer.get("success") == "0" else 0

    def _publish_trained(self, run: Path) -> None:
        """By the real command, as a process that may be killed; then it is done once more."""
        self.publishing = run
        try:
            self._publish_run(run)
        finally:
            self.publishing = None

    def _publish_run(self, run: Path) -> None:
        before, last = self._seen(), self._versions.last
        kind = self._random.choice(["auto", "base"])
        command = [sys.executable, "-m", "clickline", "publish", str(run), "--to", str(self._versions.path)]
        command += ["--kind", kind, "--sample-rows", "64"]
        for _ in range(8):
            self.publisher = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT
            )
            out, _ = self.publisher.communicate()
            code, self.publisher = self.publisher.returncode, None
            if self._versions.last > last:  # also if it was killed after the line was written
                self._books.count(trained_published=1)
                self._await(self._versions.last, f"trained {kind}", before)
                return
            self._books.event(f"publish of {run.name} ended with {code}: {_last_line(out)}")
            if run in self.thrown_away:
                return
            self._books.count(publications_refused=1)
            if self._over.wait(1.0):
                return
        self._books.promise_broken("publications go on", f"{run.name} could not be published: {_last_line(out)}")

    def _publish_damaged(self) -> None:
        """A version with a flipped bit: nobody may serve it as it is, and once it is mended everybody must."""
        flips: list[BitFlip] = []

        def damage(folder: Path) -> None:
            flip = flip_in_any_of([path for path in folder.iterdir() if path.name != MANIFEST], self._random)
            flips.extend([flip] if flip else [])

        before = self._seen()
        self._versions.damage = damage
        try:
            version = self._written(self._versions.delta)
        finally:
            self._versions.damage = None
        if not version:
            for flip in flips:
                flip.undo()
            self._tell_flip("no room")
            return
        folder = directory_of(version)
        self._books.event(f"version {version} is announced with a flipped bit: {flips[0]}")
        end = time.monotonic() + _NOTICE_WITHIN
        while time.monotonic() < end and not self._complained(folder) and not self._shown(version, before):
            self._over.wait(0.1)
        outcome = "refused" if self._complained(folder) else "not taken yet"
        if self._shown(version, before):
            # Answers were right all the same, or the books say so: the sample, for one, is read by nobody after it.
            outcome = f"served, {flips[0].path.name} was not looked at"
        flips[0].undo()
        self._tell_flip(outcome)
        self._await(version, "mended", before)

    def _complained(self, folder: str) -> bool:
        problem = str(self._suite.transfer_info().get("problem", ""))
        if "damaged" in problem or folder in problem:
            return True
        text = self._suite.log_text("predictor.0")[-4000:]
        return folder in text and "damaged" in text

    def _tell_flip(self, outcome: str) -> None:
        with self.flipped:
            self.flip_outcomes.append(outcome)
            self.flipped.notify_all()

    def _await(self, version: int, kind: str, before: dict[int, int]) -> None:
        """Until clients have seen the version after it was published, or a later one that somebody else made."""
        self._books.count(published=1, **{f"published: {kind}": 1})
        began = time.monotonic()
        while not self._shown(version, before):
            if time.monotonic() - began > DELIVERY_PATIENCE:
                self._books.count(lost_deliveries=1)
                info = self._suite.transfer_info()
                state = {key: info.get(key) for key in ("current_version_info", "wait_version_info", "problem", "held")}
                wanted = donefile.read(self._store).serving
                self._books.promise_broken(
                    "0 lost deliveries",
                    f"version {version} ({kind}) was not seen within {DELIVERY_PATIENCE:g} s; the store says "
                    f"{wanted}, transfer says {state}",
                )
                return
            time.sleep(0.05)
        self._books.count(delivered=1)
        self._books.event(
            f"version {version} ({kind}) is served, {time.monotonic() - began:.1f} s after it was published"
        )

    def _seen(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for questioner in self._questioners:
            for version, count in list(questioner.seen.items()):
                found[version] = found.get(version, 0) + count
        return found

    def _shown(self, version: int, before: dict[int, int]) -> bool:
        return self._seen().get(version, 0) > before.get(version, 0)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "nothing was said"


def kill_publisher(publications: Publications) -> bool:
    """Whether there was one."""
    process = publications.publisher
    if process is None or process.poll() is not None:
        return False
    with suppress(ProcessLookupError):
        os.kill(process.pid, 9)
    return True
