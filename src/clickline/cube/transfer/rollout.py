"""The rollout that is under way: its phases, each in the ledger before the instances are asked for it."""

from __future__ import annotations

import logging
import threading
import time

from clickline.cube.builder.version_source import ChainLink
from clickline.cube.transfer.builds import TransferPlan
from clickline.cube.transfer.desired_state import desired_state
from clickline.cube.transfer.instance import Instance
from clickline.cube.transfer.layout_members import LayoutMembers, Membership
from clickline.cube.transfer.ledger import Deployment, Ledger, Phase
from clickline.cube.transfer.rollback_target import next_number, rollback_target
from clickline.cube.transfer.rollout_rule import Decision, Verdict, judge, judge_deployment
from clickline.files.failpoints import reach

log = logging.getLogger("clickline.transfer")


class Rollout:
    """Changes the ledger, and asks the reconcilers for what it says. Hold `changed` for every call."""

    def __init__(self, plan: TransferPlan, ledger: Ledger, members: Membership) -> None:
        self._plan, self._members = plan, members
        self.ledger = ledger
        # Guards the ledger. Held for single steps only, never for a build, a download or a command to an agent; while
        # a rollback waits on it, reconcilers report and the transfer thread advances.
        self.changed = threading.Condition(threading.RLock())
        self.saved = True
        """Whether the file has what the ledger says; if a write has failed, it is to be repeated first."""

    @property
    def instances(self) -> list[Instance]:
        """Those of all layouts that have joined."""
        return [instance for group in self._members.joined for instance in group.instances]

    def begin(self, chain: list[ChainLink]) -> None:
        """Roll out a version that is built. One that is being rolled out is given up."""
        ledger = self.ledger
        if ledger.rolling is not None:
            self._give_up(ledger.rolling)
        deployment = Deployment(chain=chain)
        deployment.enter(Phase.DOWNLOADING)
        ledger.rolling = deployment
        ledger.held = 0  # the store names another version than the one that was rolled back from
        self.save()
        log.info("version %d: rollout begins, base %d", deployment.version, deployment.link.base)
        reach("transfer.built")
        self.set_desired()

    def go_back(self, version: int) -> Deployment:
        """Switch to the given version, or the previous one if it is 0, under a new number."""
        ledger = self.ledger
        target = rollback_target(ledger, self.instances, version, keep=self._plan.keep)
        left = ledger.rolling or ledger.current
        if ledger.rolling is not None:  # it is given up
            ledger.end(ledger.rolling)
            ledger.rolling = None
        # The source still names the version that the first rollback left. A second rollback does not change that,
        # and a rollback to that very version follows the source again.
        named = ledger.held or (left.version if left is not None else 0)
        ledger.held = named if named != target.version else 0
        # A new number, although the version was served before: servers refuse a number that was overtaken, so a
        # late switch command of the rollout that is given up cannot undo the rollback.
        number = next_number(ledger, self.instances)
        deployment = Deployment(chain=target.chain, phase=Phase.SWITCHING, number=number)
        ledger.number, ledger.rolling = number, deployment
        self.save()
        self.set_desired()
        return deployment

    def advance(self) -> None:
        """Take the steps of the rollout that can be taken now.

        Each phase is in the ledger before the desired state asks for it, so that a transfer that is killed in between
        resumes with the same step.
        """
        ledger = self.ledger
        if not self.instances:  # the layouts are not known yet, and nobody could do anything
            return
        # Several phases may be over at once, for instance after a restart with servers that have loaded the version.
        while (rolling := ledger.rolling) is not None:
            verdict = self._verdict(rolling)
            if verdict.decision is Decision.WAIT:
                break
            rolling.behind = list(verdict.behind)
            count = len(self.instances)
            without = f", except {', '.join(verdict.behind)}" if verdict.behind else ""
            step = "version %d: all %d instances have %s it%s"
            if rolling.phase is Phase.DOWNLOADING:
                log.info(step, rolling.version, count, "downloaded", without)
                rolling.enter(Phase.LOADING)
                self.save()
                reach("transfer.downloaded")
            elif rolling.phase is Phase.LOADING:
                log.info(step, rolling.version, count, "loaded", without)
                reach("transfer.loaded")
                # The number is in the ledger before any server is told to switch, so that it is never used twice.
                ledger.number = rolling.number = next_number(ledger, self.instances)
                rolling.enter(Phase.SWITCHING)
                self.save()
                reach("transfer.numbered")
            else:
                log.info(step, rolling.version, count, "switched to", without)
                reach("transfer.switched")
                rolling.enter(Phase.FINISHED)
                ledger.end(rolling)
                ledger.current, ledger.rolling = rolling, None
                self.save()
                log.info("version %d: rollout finished, switch %d", rolling.version, rolling.number)
                self.tidy()
                reach("transfer.finished")
                # For rollback(), which waits until its deployment is no longer the rolling one.
                self.changed.notify_all()
            self.set_desired()
        for group in self._members.joining:
            self._join(group)

    def may_go_on(self, deployment: Deployment) -> bool:
        """Whether the phase that the deployment is in is over."""
        return self._verdict(deployment).decision is Decision.GO

    def set_desired(self) -> None:
        """Hand what the ledger asks for to all reconcilers."""
        for group in self._members.groups:
            desired = desired_state(self.ledger, group.builds, joined=group.epoch in self.ledger.joined)
            for reconciler in group.reconcilers:
                reconciler.set_desired(desired)

    def save(self) -> None:
        """Write the ledger. If that fails, nothing further is done before it has succeeded."""
        self.saved = False
        self.ledger.save()
        self.saved = True

    def tidy(self) -> None:
        """Remove builds that neither the rollout nor a version that is kept needs."""
        rolling = [self.ledger.rolling] if self.ledger.rolling is not None else []
        for builds in self._members.builds:
            builds.tidy([*self.ledger.deployed(self._plan.keep), *rolling])
        self._members.remove_unused_builds()

    def _join(self, group: LayoutMembers) -> None:
        """Let a layout serve and take part in rollouts, if all of its shards have loaded the version in service."""
        current, rolling = self.ledger.current, self.ledger.rolling
        # During a switch it would be asked for a version that not all of its shards have: it joins after that.
        if current is None or (rolling is not None and rolling.phase is Phase.SWITCHING):
            return
        verdict = judge(
            group.instances,
            lambda instance: instance.has_loaded(current.version),
            patience=self._plan.patience,
            now=time.monotonic(),
        )
        if verdict.decision is Decision.GO:
            # In the ledger before any of its servers is told to switch: a transfer that is killed in between must not
            # take it for one that nobody reads, and leave it out of a rollout.
            reach("transfer.joining")
            self.ledger.joined = [*self.ledger.joined, group.epoch]
            self.save()
            log.info(
                "layout %d of %d shards: joined with version %d", group.epoch, len(group.layout.shards), current.version
            )
            reach("transfer.joined")
            self.set_desired()

    def _verdict(self, rolling: Deployment) -> Verdict:
        return judge_deployment(rolling, self.instances, patience=self._plan.patience, now=time.monotonic())

    def _give_up(self, rolling: Deployment) -> None:
        log.warning(
            "version %d was not finished (%s); a newer one takes its place", rolling.version, rolling.phase.value
        )
        self.ledger.end(rolling)
        if rolling.phase is Phase.SWITCHING:  # some servers serve it already: it is what a newer one comes after
            self.ledger.current = rolling
