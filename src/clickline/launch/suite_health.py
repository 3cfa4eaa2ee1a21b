"""The health of a suite: whether its supervisor lives, and what every component answers by HTTP.

Versions may differ for a moment while one is under way. A component that is behind is only complained about when no
rollout is under way and a second look finds the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import httpx

from clickline.launch.delivery_status import DeliveryStatus
from clickline.launch.suite_record import ComponentHealth, ComponentRecord, SuiteHealth
from clickline.launch.suite_state import is_up, read_suite

_PATHS = {
    "fileserver": "/health",
    "transfer": "/status",
    "agent": "/agent/status",
    "cube": "/health",
    "predictor": "/status",
}
_READY = "/v2/health/ready"
_PATIENCE = 3.0
_AGAIN = 1.0
_CRASH_LOOP = 3
"""Deaths that count (see `restart_policy`) which are not chance any more."""
WELL = "well"


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a component answered, if it did."""

    health: str
    body: Mapping[str, Any] = field(default_factory=dict)


_SUPERVISOR_GONE = _Answer("its supervisor is gone")


def examine(state: Path) -> SuiteHealth | None:
    """The health of the suite of a state directory; None if there is no suite, nor anything left of one."""
    health = _look(state)
    if health is not None and _behind(health):
        time.sleep(_AGAIN)
        health = _look(state)
    if health is None:
        return None
    for component in _behind(health):
        if component["health"] == WELL:
            component["health"] = f"serves version {component['version']}, not {health['version']}"
    health["complaints"] = _complaints(health, state)
    health["well"] = not health["complaints"]
    return health


def _look(state: Path) -> SuiteHealth | None:
    record = read_suite(state)
    if record is None:
        return None
    up = is_up(state)
    components = record.get("components", [])
    # All at the same time: components that hang cost `_PATIENCE` once and not each.
    with ThreadPoolExecutor(max(1, len(components))) as threads:
        answers = list(threads.map(lambda component: _ask(component) if up else _SUPERVISOR_GONE, components))
    health = cast(SuiteHealth, {**record, "up": up, "version": None, "rolling": None, "problem": "", "components": []})
    for component, answer in zip(components, answers, strict=True):
        version = _version(component["role"], answer.body)
        examined = cast(ComponentHealth, {**component, "health": answer.health, "version": version})
        health["components"].append(examined)
        if component["role"] == "transfer" and answer.body:
            status = DeliveryStatus.of(answer.body)
            health["version"], health["problem"] = version, status.problem
            health["rolling"] = status.rolling or None
    return health


def _behind(health: SuiteHealth) -> list[ComponentHealth]:
    """Components that serve another version than transfer has delivered, while none is under way."""
    if health["rolling"] or not health["version"]:
        return []
    return [
        component
        for component in health["components"]
        if component["role"] in ("cube", "predictor") and component["version"] not in (None, health["version"])
    ]


def _ask(component: ComponentRecord) -> _Answer:
    """Ask a component how it is."""
    deaths, reason, address = component.get("deaths", 0), component["reason"], component["address"]
    # The ready file of a process that has died still names its address; by now another process may listen there.
    if component["state"] != "running":
        often = f" ({deaths} deaths lately)" if deaths >= _CRASH_LOOP else ""
        return _Answer(f"{component['state']}: {reason}{often}" if reason else component["state"])
    if not address:
        return _Answer("does not answer yet")
    role = component["role"]
    try:
        with httpx.Client(trust_env=False, timeout=_PATIENCE) as client:
            response = client.get(address + _PATHS[role])
            ready = role != "predictor" or client.get(address + _READY).status_code == 200
        body = response.json()
    except (httpx.HTTPError, ValueError) as error:
        return _Answer(f"does not answer: {type(error).__name__}")
    if not isinstance(body, dict):
        return _Answer(f"answers {body!s:.40}")
    if not ready:
        return _Answer("not ready: no complete version", body)
    if response.status_code >= 400:
        return _Answer(str(body.get("status") or body.get("error") or f"answers {response.status_code}"), body)
    if deaths >= _CRASH_LOOP:
        return _Answer(f"answers, but has died {deaths} times lately; the last time: {reason}", body)
    return _Answer(WELL, body)


def _version(role: str, body: Mapping[str, Any]) -> int | None:
    """The version that a component serves, if it serves one."""
    if role == "cube":
        return int(body.get("version") or 0) or None
    if role == "transfer":
        return DeliveryStatus.of(body).serving or None
    if role == "predictor":
        return _served_version(body)
    return None


def _served_version(status: Mapping[str, Any]) -> int | None:
    """The version of the first model in a predictor's status that has one."""
    models = status.get("models")
    values = list(models.values()) if isinstance(models, dict) else models if isinstance(models, list) else []
    versions = [model.get("version") for model in values if isinstance(model, dict)]
    return next((version for version in versions if isinstance(version, int)), None)


def _complaints(health: SuiteHealth, state: Path) -> list[str]:
    if not health["up"]:
        return [
            f"the suite's supervisor, process {health.get('pid')}, is gone without having stopped it; "
            f"`clickline up --state {state}` goes on from what there is, `clickline down {state}` clears it away"
        ]
    unwell = [f"{each['name']}: {each['health']}" for each in health["components"] if each["health"] != WELL]
    return unwell + ([f"transfer: {health['problem']}"] if health["problem"] else [])
