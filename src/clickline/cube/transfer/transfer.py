"""Transfer: follows a source of versions, builds what is new, and brings it to all servers.

    choose → build → all download → all load → all switch, under a new number

One thread takes these steps and records each in the ledger before it takes the next; it sets the desired state, and
one reconciler for each instance does the work there. Whatever is wrong with a new version, the one in service stays in
service, and the problem is named. Going back to an earlier version needs neither a build nor a download and does not
wait for either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path

from clickline.cube.builder.version_source import VersionSource
from clickline.cube.layouts.layout import Layout, LayoutsUnknownError
from clickline.cube.transfer.builds import TransferPlan
from clickline.cube.transfer.instance import Instance
from clickline.cube.transfer.layout_members import LayoutMembers, Membership
from clickline.cube.transfer.ledger import Ledger
from clickline.cube.transfer.rollback_target import RollbackResult
from clickline.cube.transfer.rollout import Rollout
from clickline.cube.transfer.rollout_rule import is_stuck
from clickline.errors import ClicklineError
from clickline.files.failpoints import reach

log = logging.getLogger("clickline.transfer")
_POLL_EVERY = 0.05
"""Seconds between polls of a donefile that lies on this machine."""
_ROLLBACK_WITHIN = 10.0


class Transfer:
    """Works in threads of its own from `start` to `close`. Its state may be read from any thread."""

    def __init__(self, plan: TransferPlan, source: VersionSource, *, token: bytes, url: Callable[[str], str]) -> None:
        self.plan, self._source, self._url = plan, source, url
        plan.scratch.mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger.read(plan.scratch)
        self.problem = ""
        """Why the newest version is not in service, if it should be."""
        self._notified, self._has_news, self._stopping = True, False, False
        self._stamp: object = None
        self._polled = 0.0
        self._unknown = ""
        """Why the layouts cannot be learned, if they cannot."""
        self._members = Membership(plan, source, self.ledger, token=token, url=url, on_change=self._notify_change)
        # Servers that are listed are known from the start; others are waited for by the thread.
        with suppress(LayoutsUnknownError):
            self._members.update(plan.layouts.layouts())
        self._rollout = Rollout(plan, self.ledger, self._members)
        self._changed = self._rollout.changed
        self._thread = threading.Thread(target=self._run, name="clickline-transfer", daemon=True)

    @property
    def instances(self) -> list[Instance]:
        """The servers of all layouts."""
        return [instance for group in self._members.groups for instance in group.instances]

    @property
    def layouts(self) -> tuple[LayoutMembers, ...]:
        """All layouts, the newest last."""
        return self._members.groups

    @property
    def layout(self) -> Layout:
        """The newest layout that serves; one without shards, as long as none is known."""
        joined = self._members.joined
        return joined[-1].layout if joined else Layout(0, ())

    @property
    def output(self) -> Path:
        """Directory of the builds for that layout."""
        return self.plan.output / self.plan.builds_directory(len(self.layout.shards))

    @property
    def runs(self) -> bool:
        """Whether the thread that takes the steps is alive; a step may take long, so its progress says nothing."""
        return self._thread.is_alive()

    def start(self) -> None:
        # From the ledger: a rollout that was interrupted goes on in the phase that it was in.
        self._rollout.set_desired()
        for group in self.layouts:
            for reconciler in group.reconcilers:
                reconciler.start()
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for group in self.layouts:
            for reconciler in group.reconcilers:
                reconciler.close()
        self._thread.join(60.0)

    def notify(self) -> None:
        """Poll the source at once, since there may be a new version."""
        with self._changed:
            self._notified = self._has_news = True
            self._changed.notify_all()

    def rollback(self, version: int = 0) -> RollbackResult:
        """Switch all servers to the previous version, or the given one, without waiting for anything else."""
        began = time.perf_counter()
        with self._changed:
            deployment = self._rollout.go_back(version)
            target, number = deployment.version, deployment.number
            # `_advance` also runs in the transfer thread: the rollback may be over, and replaced, when this wakes up.
            self._changed.wait_for(
                lambda: self.ledger.rolling is not deployment or self._rollout.may_go_on(deployment),
                _ROLLBACK_WITHIN,
            )
            self._advance()
            done = self.ledger.current is deployment
            behind = [instance.name for instance in self.instances if not instance.serves(target, number)]
        seconds = round(time.perf_counter() - began, 4)
        log.info("rollback to version %d, switch %d: %.3f s", target, number, seconds)
        return RollbackResult(target, number, seconds, behind, done)

    def resume(self) -> None:
        """Roll out the version that was rolled back from, after all."""
        with self._changed:
            self.ledger.held = 0
            self._rollout.save()
        self.notify()

    def register_meta(self, key: str, meta: str) -> None:
        """Keep JSON that another program registers for a part of a version."""
        with self._changed:
            self.ledger.metas[key] = meta
            self._rollout.save()

    def address_of(self, name: str) -> str:
        """URL of a file of the builds, for agents."""
        return self._url(name)

    # --- the thread ---

    def _run(self) -> None:
        with suppress(OSError), self._changed:
            self._rollout.tidy()  # a transfer that was killed may not have done it
        while not self._stopping:
            try:
                self._follow_layouts()
                # A write that failed left memory ahead of the file: agents learn of a step once it is on the disk.
                with self._changed:
                    if not self._rollout.saved:
                        self._rollout.save()
                        self._rollout.set_desired()
                    self._advance()
                self._check_builds()
                with self._changed:
                    self._advance()
                    # A rollout that waits for an instance in trouble may be replaced by a newer version.
                    stuck = is_stuck(self._rollout.instances, patience=self.plan.patience, now=time.monotonic())
                    blocked = self.ledger.rolling is not None and not stuck
                if not blocked and self.layouts and self._is_due():
                    self._poll()
            except ClicklineError as error:
                self._report_problem(str(error))
            except Exception as error:
                log.exception("transfer")
                self._report_problem(f"{type(error).__name__}: {error}")
            with self._changed:
                self._changed.wait_for(lambda: self._has_news or self._stopping, _POLL_EVERY)
                self._has_news = False

    def _check_builds(self) -> None:
        """Verify the builds of versions that are in service or being rolled out before they are offered again.

        After a start nobody knows what happened to them meanwhile, and an agent may have got something else.
        """
        with self._changed:
            offered = [each for each in (self.ledger.rolling, self.ledger.current) if each is not None]
        links = dict.fromkeys(link for deployment in offered for link in deployment.chain)
        for builds, link in product(self._members.builds, links):
            if self._stopping or not builds.is_due(link):
                continue
            # Reads or builds gigabytes, so without the lock: a rollback must not wait for it.
            is_ready = builds.prepare_again(link)
            with self._changed:
                self._rollout.set_desired()
                for group in self.layouts if is_ready else ():
                    for reconciler in group.reconcilers:
                        reconciler.try_again()
                self._advance()

    def _follow_layouts(self) -> None:
        """Look whether there are other layouts or members than before, and work for those that there are."""
        try:
            layouts = self.plan.layouts.layouts()
        except LayoutsUnknownError as error:  # those that are known stay
            if str(error) != self._unknown:
                log.warning("%s", error)
            self._unknown = str(error)
            return
        self._unknown = ""
        if not self._members.differs(layouts):
            return
        with self._changed:
            started, left = self._members.update(layouts)
            self._rollout.save()
            reach("transfer.layouts-noted")
            self._rollout.set_desired()
            with suppress(OSError):
                self._rollout.tidy()
        shapes = ", ".join(f"{each.epoch}: {len(each.shards)} shards, {len(each.members)} servers" for each in layouts)
        log.info("layouts are %s", shapes)
        for reconciler in started:
            reconciler.start()
        for reconciler in left:  # without the lock, which its thread may wait for
            reconciler.close()

    def _is_due(self) -> bool:
        # Stamp and flag are taken before the source is read: what changes during the read causes another poll.
        stamp = self._source.stamp()
        if self._notified or stamp != self._stamp or time.monotonic() - self._polled >= self.plan.interval:
            self._notified, self._stamp, self._polled = False, stamp, time.monotonic()
            return True
        return False

    def _poll(self) -> None:
        """Choose a version and build it; its rollout begins when the build is there."""
        chain = self._source.chain()
        with self._changed:
            serving = self.ledger.rolling or self.ledger.current
            held = self.ledger.held
        # The source itself went back to the version in service, so there is nothing left that must be held.
        if chain and held and serving and chain[-1].version == serving.version:
            self._follow_again(held)
        if not chain or chain[-1].version in (held, serving and serving.version):
            self._report_problem("" if self.ledger.rolling is None else self.problem)
            return
        reach("transfer.chosen")
        # Building takes long and holds no lock: a rollback may come in between, which the checks below notice.
        good, problem = chain, ""
        for group in self._members.joined:  # one that has not joined gets what is current then
            good, problem = group.builds.build(good)
            if problem:
                break
        self._report_problem(problem)
        if not good or good[-1].version in (held, serving and serving.version):
            return
        if serving and serving.version > good[-1].version and chain[-1].version > serving.version:
            return  # the newer one is not sound, and nobody asked to go back
        with self._changed:
            ledger = self.ledger
            # Compared by identity: a rollback makes a new Deployment even for the same version.
            if ledger.held != held or (ledger.rolling or ledger.current) is not serving:
                return  # a rollback came in between
            self._rollout.begin(good)

    def _follow_again(self, held: int) -> None:
        """Forget the held version: the source names the one in service, so whatever it names next is rolled out."""
        with self._changed:
            if self.ledger.held == held:
                self.ledger.held = 0
                self._rollout.save()

    def _advance(self) -> None:
        if not self._stopping:
            self._rollout.advance()

    def _notify_change(self) -> None:
        with self._changed:
            self._has_news = True
            self._changed.notify_all()

    def _report_problem(self, problem: str) -> None:
        if problem != self.problem:
            if problem:
                log.warning("%s", problem)
            elif self.problem:
                log.info("no longer a problem: %s", self.problem)
            self.problem = problem
