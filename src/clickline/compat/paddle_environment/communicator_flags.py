"""Flags of PaddlePaddle's communicator: some become overrides of the job, the others are reported as dead.

They are weaker than --set and stronger than the job file: a flag that is exported is meant for this run.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from clickline.errors import JobError, JobProblem

LIVE = {
    "FLAGS_communicator_max_merge_var_num": "cluster.agree.merge",
    "FLAGS_communicator_send_queue_size": "cluster.agree.send_queue",
    "FLAGS_communicator_min_send_grad_num_before_recv": "cluster.agree.dense_every",
    "FLAGS_communicator_geo_need_push_nums": "cluster.agree.geo_steps",
    "FLAGS_geo_sgd_need_push_nums": "cluster.agree.geo_steps",
    "geo_sgd_need_push_nums": "cluster.agree.geo_steps",
    "FLAGS_rpc_deadline": "cluster.deadline",
    "FLAGS_worker_update_interval_secs": "cluster.evict_after",
}
"""The key of the job that each sets."""
MILLISECONDS = {"FLAGS_rpc_deadline"}
MOST_SECONDS = {"FLAGS_rpc_deadline": 600}
"""Values above these are lowered. Examples for Kubernetes set a deadline of ten hours, since PaddlePaddle had nothing
else against a slow server; here it would be ten hours in which a lost answer goes unnoticed."""
DEAD = {
    "FLAGS_communicator_max_send_grad_num_before_recv": "PaddlePaddle never read it either, but …min_send…",
    "FLAGS_communicator_fake_rpc": "was never read by PaddlePaddle either",
    "FLAGS_communicator_thread_pool_size": "each request has its own connection and thread",
    "FLAGS_communicator_independent_recv_thread": "rows are always pulled ahead; cluster.agree.prefetch says how far",
    "FLAGS_communicator_send_wait_times": "a sender waits for gradients, not for a count of rounds",
    "FLAGS_communicator_is_sgd_optimizer": "how gradients merge does not depend on the optimizer",
    "FLAGS_communicator_merge_sparse_grad": "gradients of one row are always merged before they are sent",
    "FLAGS_communicator_merge_sparse_bucket": "gradients of one row are always merged before they are sent",
    "FLAGS_rpc_retry_times": "requests are tried again for cluster.retry_for seconds, however often that is",
    "FLAGS_rpc_retry_bind_port": "a port that is taken is an error at once",
    "FLAGS_rpc_send_thread_num": "each request has its own connection and thread",
    "FLAGS_rpc_get_thread_num": "each request has its own connection and thread",
    "FLAGS_rpc_prefetch_thread_num": "each request has its own connection and thread",
}
"""Why each has no effect."""
_PREFIXES = ("FLAGS_communicator_", "FLAGS_rpc_", "FLAGS_geo_")


@dataclass(frozen=True, slots=True)
class Flags:
    overrides: list[str]
    """KEY=VALUE, as for --set."""
    dead: dict[str, str]
    """For each flag that is set and has no effect, why."""
    keys: dict[str, str] = field(default_factory=dict)
    """For each flag that is set and means something here, the key of the job that it sets."""
    lowered: dict[str, str] = field(default_factory=dict)
    """For each flag whose value is too high, what it was lowered to, and why."""

    def report(self) -> str:
        """What to tell the user once; empty if there is nothing to tell."""
        dead = [f"{name} has no effect: {reason}" for name, reason in self.dead.items()]
        return "\n".join([*dead, *(f"{name}: {reason}" for name, reason in self.lowered.items())])

    def name_in(self, notice: JobProblem) -> str:
        """A notice about a key of the job; where a flag has set the key, it is about the flag."""
        names = [name for name, key in self.keys.items() if key == notice.key]
        if not names or not notice.override:
            return str(notice)
        return f"{', '.join(names)}: sets {notice.key}, which {notice.message}"


def paddle_flags(environ: Mapping[str, str] | None = None) -> Flags:
    """What the flags in the environment come to."""
    env = os.environ if environ is None else environ
    overrides, keys, lowered = [], {}, {}
    for name, key in LIVE.items():
        if text := env.get(name, "").strip():
            number = _value(name, text)
            if number > (most := MOST_SECONDS.get(name, math.inf)):
                lowered[name] = f"{number:g} s is lowered to {most:g}: a lost answer would be waited for as long"
                number = most
            overrides.append(f"{key}={number:g}" if name in MILLISECONDS else f"{key}={number}")
            keys[name] = key
    dead = {name: reason for name, reason in DEAD.items() if name in env}
    for name in sorted(env):
        if name.startswith(_PREFIXES) and name not in LIVE and name not in DEAD:
            dead[name] = "it is not known here"
    return Flags(overrides, dead, keys, lowered)


def _value(name: str, text: str) -> float:
    try:
        number = int(text)
    except ValueError:
        raise JobError(f"{name}: '{text}' must be a whole number") from None
    # PaddlePaddle counts its deadline in milliseconds, a job in seconds.
    return number / 1000 if name in MILLISECONDS else number
