"""Transfer: follows a source of versions, builds what is new, and brings it to all servers.

    choose → build → all download → all load → all switch, under a new number

One thread goes through these steps and notes each in a file before it takes the next; one driver for each instance does
the work there (`driving`). Whatever is wrong with a new version, the one in service stays in service, and what is wrong
is named. Going back to an earlier version needs neither a build nor a download and does not wait for either.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from clickline.cube.builds import Builds, TransferPlan
from clickline.cube.deployments import Deployment, Ledger
from clickline.cube.driving import Driver, Goal, Piece
from clickline.cube.instances import Instance
from clickline.cube.rollouts import Answer, Verdict, judge
from clickline.cube.sources import Source
from clickline.errors import ClicklineError, VersionError
from clickline.failpoints import reach

log = logging.getLogger("clickline.transfer")
_LOOK_EVERY = 0.05
"""Seconds between looks at a donefile that lies on this machine."""
_ROLLBACK_WITHIN = 10.0


class Transfer:
    """Works in threads of its own from `start` to `close`. What it tells may be asked for at any time."""

    def __init__(self, plan: TransferPlan, source: Source, *, token: bytes, url: Callable[[str], str]) -> None:
        self.plan, self._source, self._url = plan, source, url
        self.builds = Builds(plan, source, url=url)
        plan.scratch.mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger.read(plan.scratch)
        self.problem = ""
        """Why the newest version is not in service, if it should be."""
        self._changed = threading.Condition(threading.RLock())
        self._woken, self._news, self._stopping = True, False, False
        self._stamp: object = None
        self._looked = 0.0
        self._saved = True
        self.drivers = [
            Driver(
                Instance(shard, copy, replica),
                name=plan.name,
                token=token,
                peers=[other.cube for other in replicas if other != replica],
                on_change=self._something_happened,
                on_damaged=self._distrust_build,
            )
            for shard, replicas in enumerate(plan.replicas)
            for copy, replica in enumerate(replicas)
        ]
        self._thread = threading.Thread(target=self._run, name="clickline-transfer", daemon=True)

    @property
    def instances(self) -> list[Instance]:
        return [driver.instance for driver in self.drivers]

    @property
    def runs(self) -> bool:
        """Whether the thread that takes the steps is there; a step may take long, so how it gets on says nothing."""
        return self._thread.is_alive()

    def start(self) -> None:
        self._set_goals()
        for driver in self.drivers:
            driver.start()
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for driver in self.drivers:
            driver.close()
        self._thread.join(60.0)

    def notify(self) -> None:
        """There may be a new version: look at once."""
        with self._changed:
            self._woken = self._news = True
            self._changed.notify_all()

    def rollback(self, version: int = 0) -> dict[str, Any]:
        """Switch all servers to the version before, or the one that is named, without waiting for anything else."""
        began = time.perf_counter()
        with self._changed:
            ledger = self.ledger
            target = self._rollback_target(version)
            left = ledger.rolling or ledger.current
            if ledger.rolling is not None:
                ledger.end(ledger.rolling)
                ledger.rolling = None
            # What the source names is what somebody went back from first. Going back once more does not change it, and
            # going back to it is following the source again.
            named = ledger.held or (left.version if left is not None else 0)
            ledger.held = named if named != target.version else 0
            number = self._next_number()
            deployment = Deployment(target.chain, phase="Enabling", number=number)
            ledger.number, ledger.rolling = number, deployment
            self._save()
            self._set_goals()
            self._changed.wait_for(
                lambda: ledger.rolling is not deployment or self._verdict(deployment).answer is Answer.GO,
                _ROLLBACK_WITHIN,
            )
            self._roll()
            done = ledger.current is deployment
            behind = [one.name for one in self.instances if not one.serves(target.version, number)]
        seconds = round(time.perf_counter() - began, 4)
        log.info("rollback to version %d, switch %d: %.3f s", target.version, number, seconds)
        return {"version": target.version, "switch": number, "seconds": seconds, "behind": behind, "finished": done}

    def resume(self) -> None:
        """Roll out the version that somebody went back from, after all."""
        with self._changed:
            self.ledger.held = 0
            self._save()
        self.notify()

    def register_meta(self, key: str, meta: str) -> None:
        """Keep what somebody tells about a part of a version."""
        with self._changed:
            self.ledger.metas[key] = meta
            self._save()

    def address_of(self, name: str) -> str:
        """Where agents get a file of the builds."""
        return self._url(name)

    # --- the thread ---

    def _run(self) -> None:
        with suppress(OSError):
            self._tidy()  # one that was killed may not have come to it
        while not self._stopping:
            try:
                with self._changed:
                    self._save_what_was_not()
                    self._roll()
                self._check_builds()
                with self._changed:
                    self._roll()
                    blocked = self.ledger.rolling is not None and not self._is_stuck()
                if not blocked and self._is_due():
                    self._look()
            except ClicklineError as error:
                self._complain(str(error))
            except Exception as error:
                log.exception("transfer")
                self._complain(f"{type(error).__name__}: {error}")
            with self._changed:
                self._changed.wait_for(lambda: self._news or self._stopping, _LOOK_EVERY)
                self._news = False

    def _check_builds(self) -> None:
        """Before builds of versions that are in service or under way are offered again: every byte is looked at.

        After a start nobody knows what happened to them meanwhile, and an agent may say that it got something else.
        """
        with self._changed:
            offered = [one for one in (self.ledger.rolling, self.ledger.current) if one is not None]
        for step in dict.fromkeys(step for one in offered for step in one.chain):
            if self._stopping or not self.builds.is_due(step):
                continue
            is_ready = self.builds.prepare_again(step)
            with self._changed:
                self._set_goals()
                for driver in self.drivers if is_ready else ():
                    driver.try_again()
                self._roll()

    def _tidy(self) -> None:
        with self._changed:
            rolling = [self.ledger.rolling] if self.ledger.rolling is not None else []
            self.builds.tidy([*self.ledger.deployed(self.plan.keep), *rolling])

    def _distrust_build(self, piece: Piece) -> None:
        self.builds.suspect(piece.base, piece.version)
        self._something_happened()

    def _save(self) -> None:
        """Note where we are. If that fails, nothing further is done before it has succeeded."""
        self._saved = False
        self.ledger.save()
        self._saved = True

    def _save_what_was_not(self) -> None:
        if not self._saved:
            self._save()
            self._set_goals()

    def _is_due(self) -> bool:
        stamp = self._source.stamp()
        if self._woken or stamp != self._stamp or time.monotonic() - self._looked >= self.plan.interval:
            self._woken, self._stamp, self._looked = False, stamp, time.monotonic()
            return True
        return False

    def _look(self) -> None:
        """Choose and build; the rollout begins when a build is there."""
        chain = self._source.chain()
        with self._changed:
            serving = self.ledger.rolling or self.ledger.current
            held = self.ledger.held
        if chain and held and serving and chain[-1].version == serving.version:
            self._follow_again(held)
        if not chain or chain[-1].version in (held, serving and serving.version):
            self._complain("" if self.ledger.rolling is None else self.problem)
            return
        reach("transfer.chosen")
        good, problem = self.builds.build(chain)
        self._complain(problem)
        if not good or good[-1].version in (held, serving and serving.version):
            return
        if serving and serving.version > good[-1].version and chain[-1].version > serving.version:
            return  # what is newer is not sound, and going back is not what was asked for
        with self._changed:
            ledger = self.ledger
            if ledger.held != held or (ledger.rolling or ledger.current) is not serving:
                return  # somebody went back meanwhile
            if ledger.rolling is not None:
                self._give_up(ledger.rolling)
            deployment = Deployment(good)
            deployment.enter("Downloading")
            ledger.rolling = deployment
            ledger.held = 0  # the store names another version than the one that somebody went back from
            self._save()
            log.info("[entry]start deploy version:%d depend:%d", deployment.version, deployment.step.base)
            reach("transfer.built")
            self._set_goals()

    def _follow_again(self, held: int) -> None:
        """The source names what is served: whatever it names next is news, be it what somebody went back from."""
        with self._changed:
            if self.ledger.held == held:
                self.ledger.held = 0
                self._save()

    def _roll(self) -> None:
        """Take the steps of the rollout that can be taken now."""
        ledger = self.ledger
        while (rolling := ledger.rolling) is not None and not self._stopping:
            verdict = self._verdict(rolling)
            if verdict.answer is Answer.WAIT:
                return
            rolling.behind = list(verdict.behind)
            without = f", without {', '.join(verdict.behind)}" if verdict.behind else ""
            if rolling.phase == "Downloading":
                log.info("[all download ok]inst :%d%s", len(self.drivers), without)
                rolling.enter("Reloading")
                self._save()
                reach("transfer.downloaded")
            elif rolling.phase == "Reloading":
                log.info("[all reload ok]inst:%d%s", len(self.drivers), without)
                reach("transfer.loaded")
                ledger.number = rolling.number = self._next_number()
                rolling.enter("Enabling")
                self._save()
                reach("transfer.numbered")
            else:
                log.info("[all enable ok]inst :%d%s", len(self.drivers), without)
                reach("transfer.switched")
                rolling.enter("Finished")
                ledger.end(rolling)
                ledger.current, ledger.rolling = rolling, None
                self._save()
                log.info("[deploy finish]version:%d switch:%d", rolling.version, rolling.number)
                self._tidy()
                reach("transfer.finished")
                self._changed.notify_all()
            self._set_goals()

    def _verdict(self, rolling: Deployment) -> Verdict:
        version, number = rolling.version, rolling.number
        made_it: dict[str, Callable[[Instance], bool]] = {
            "Downloading": lambda one: one.has_downloaded(version),
            "Reloading": lambda one: one.has_loaded(version),
            "Enabling": lambda one: one.serves(version, number),
        }
        return judge(
            self.instances,
            made_it[rolling.phase],
            patience=self.plan.patience,
            now=time.monotonic(),
            refusals_count=rolling.phase == "Enabling",
        )

    def _is_stuck(self) -> bool:
        """Whether the rollout waits for somebody who is in trouble: a newer version may then take its place."""
        now = time.monotonic()
        return any(
            one.trouble_since is not None and now - one.trouble_since > self.plan.patience for one in self.instances
        )

    def _give_up(self, rolling: Deployment) -> None:
        log.warning("version %d was not finished (%s); a newer one takes its place", rolling.version, rolling.phase)
        self.ledger.end(rolling)
        if rolling.phase == "Enabling":
            self.ledger.current = rolling

    def _rollback_target(self, version: int) -> Deployment:
        ledger = self.ledger
        known = ledger.deployed(self.plan.keep)
        others = [one for one in known if ledger.current is None or one.version != ledger.current.version]
        if ledger.rolling is not None and ledger.rolling.phase == "Enabling" and ledger.current is not None:
            others = known
        chosen = [one for one in known if one.version == version] if version else others[-1:]
        if not chosen:
            listed = ", ".join(str(one.version) for one in others) or "none"
            raise VersionError(f"no version {version or 'before this one'} to go back to; kept: {listed}")
        shards = {one.shard for one in self.instances if one.has_loaded(chosen[0].version)}
        if len(shards) < self.plan.shards:
            raise VersionError(f"version {chosen[0].version} is not loaded on any server of some shard")
        return chosen[0]

    def _next_number(self) -> int:
        """Higher than any that we gave or a server has seen, should our own memory have been lost."""
        return 1 + max([self.ledger.number, *(int(one.seen.get("number", 0)) for one in self.instances)])

    def _set_goals(self) -> None:
        current, rolling = self.ledger.current, self.ledger.rolling
        serve = current
        prepare = None
        if rolling is not None and rolling.phase == "Enabling":
            serve = rolling
        elif rolling is not None:
            prepare = rolling
        goal = Goal(
            serve=None if serve is None else (serve.version, serve.number),
            prepare=None if prepare is None else prepare.version,
            load=prepare is not None and prepare.phase == "Reloading",
            chains=tuple(self.builds.pieces(one.chain) for one in (serve, prepare) if one is not None),
            awaited=tuple(
                one.version for one in (serve, prepare) if one is not None and self.builds.is_awaited(one.chain)
            ),
        )
        for driver in self.drivers:
            driver.set_goal(goal)

    def _something_happened(self) -> None:
        with self._changed:
            self._news = True
            self._changed.notify_all()

    def _complain(self, problem: str) -> None:
        if problem != self.problem:
            if problem:
                log.warning("%s", problem)
            elif self.problem:
                log.info("no longer a problem: %s", self.problem)
            self.problem = problem
