"""A connection to a Ray cluster that is running. None is ever started here: it would not outlive this process."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any

from clickline.errors import JobError, PeerError

NAMESPACE = "clickline"
"""Of all actors and placement groups of ours, whoever starts them."""


@dataclass(frozen=True, slots=True)
class RayNode:
    """One node of the cluster that is alive."""

    id: str
    address: str
    cpus: float


class RayCluster:
    """The cluster, while this process is connected to it."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        """The module: it is imported for those only who use it."""
        context = ray.get_runtime_context()
        self.address: str = context.gcs_address
        self.own_node: str = context.get_node_id()

    def nodes(self) -> list[RayNode]:
        """Those that are alive."""
        return [
            RayNode(node["NodeID"], node["NodeManagerAddress"], float(node["Resources"].get("CPU", 0)))
            for node in self.ray.nodes()
            if node["Alive"]
        ]

    def is_alive(self, node: str) -> bool:
        return any(each.id == node for each in self.nodes())

    def own_address(self) -> str:
        """Of the node that this process runs on."""
        return next(node.address for node in self.nodes() if node.id == self.own_node)


def import_ray() -> Any:
    """The package ray. Raises JobError if it is not installed."""
    try:
        return importlib.import_module("ray")
    except ModuleNotFoundError:
        raise JobError("--on ray: the package ray is not installed: pip install 'clickline[ray]'") from None


@contextmanager
def connected(address: str = "") -> Iterator[RayCluster]:
    """The cluster of RAY_ADDRESS, or the one that runs on this machine. Raises PeerError if there is none.

    A program that is connected to a cluster already stays so.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield RayCluster(ray)
        return
    wanted = address or os.environ.get("RAY_ADDRESS") or "auto"
    if wanted == "local" or wanted.startswith("ray://"):
        raise JobError(f"RAY_ADDRESS is {wanted!r}: expected HOST:PORT of a cluster of which this machine is a node")
    main = threading.current_thread() is threading.main_thread()
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(
            address=wanted,
            namespace=NAMESPACE,
            log_to_driver=False,  # runners report what their processes write
            configure_logging=False,
        )
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        raise PeerError(
            f"no Ray cluster at {wanted!r}: {reason}; start one with `ray start --head` here and "
            "`ray start --address=HOST:6379` on other nodes, or set RAY_ADDRESS"
        ) from None
    finally:
        if main:
            signal.signal(signal.SIGTERM, on_term)  # Ray's own ends the process without stopping the job in order
    try:
        # Ray prints what befalls nodes, and standard output is for results.
        with redirect_stdout(sys.stderr):
            yield RayCluster(ray)
    finally:
        ray.shutdown()
