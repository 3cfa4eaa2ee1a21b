"""How a suite is: its supervisor, and every component asked by HTTP what it serves and whether it is well.

Versions may differ for a moment while one is on its way; who is behind is only complained about when nothing is under
way any more and a second look finds the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from clickline.launch.suite_state import is_up, read_suite

_PATHS = {
    "fileserver": "/health",
    "transfer": "/dict/info",
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
_GONE: tuple[str, dict[str, Any]] = ("its supervisor is gone", {})


def examine(state: Path) -> dict[str, Any] | None:
    """All there is to know; None if there is no suite, nor anything left of one.

    `components` have `health`, which is "well" or what is wrong in words, and `version` where they serve one;
    `complaints` is everything that is not well.
    """
    found = _look(state)
    if found and any(one.get("behind") for one in found["components"]):
        time.sleep(_AGAIN)
        found = _look(state)
    if found is None:
        return None
    for one in found["components"]:
        if one.pop("behind", False) and one["health"] == WELL:
            one["health"] = f"serves version {one['version']}, not {found['version']}"
    found["complaints"] = list(_complaints(found, state))
    found["well"] = not found["complaints"]
    return found


def _look(state: Path) -> dict[str, Any] | None:
    told = read_suite(state)
    if told is None:
        return None
    up = is_up(state)
    components = [dict(one) for one in told.get("components", ())]
    with ThreadPoolExecutor(max(1, len(components))) as threads:
        answers = list(threads.map(lambda one: _asked(one) if up else _GONE, components))
    found: dict[str, Any] = {**told, "up": up, "version": None, "rolling": None, "problem": ""}
    for one, (health, answer) in zip(components, answers, strict=True):
        one["health"], one["version"] = health, _version(one["role"], answer)
        if one["role"] == "transfer" and answer:
            found["version"], found["problem"] = one["version"], answer.get("problem") or ""
            found["rolling"] = (answer.get("wait_version_info") or {}).get("version")
    for one in components:
        serves = one["role"] in ("cube", "predictor") and one["version"]
        one["behind"] = bool(serves and not found["rolling"] and found["version"] and serves != found["version"])
    return {**found, "components": components}


def _asked(one: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Its health in words, and what it answered."""
    if one["state"] != "running":
        often = f" ({one['deaths']} deaths lately)" if one.get("deaths", 0) >= _CRASH_LOOP else ""
        return f"{one['state']}: {one['reason']}{often}" if one["reason"] else str(one["state"]), {}
    if not one["address"]:
        return "does not answer yet", {}
    try:
        with httpx.Client(trust_env=False, timeout=_PATIENCE) as client:
            answer = client.get(one["address"] + _PATHS[one["role"]])
            ready = one["role"] != "predictor" or client.get(one["address"] + _READY).status_code == 200
        said = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        return f"does not answer: {type(error).__name__}", {}
    if not isinstance(said, dict):
        return f"answers {said!s:.40}", {}
    if not ready:
        return "not ready: no complete version", said
    if answer.status_code >= 400:
        return str(said.get("status") or said.get("error") or f"answers {answer.status_code}"), said
    told = said.get("data", said) if one["role"] == "transfer" else said
    if one.get("deaths", 0) >= _CRASH_LOOP:
        return f"answers, but has died {one['deaths']} times lately; the last time: {one['reason']}", told
    return WELL, told


def _version(role: str, answer: Mapping[str, Any]) -> int | None:
    """The version that it serves, if it does."""
    if role == "cube":
        return int(answer.get("version") or 0) or None
    if role == "transfer":
        current = answer.get("current_version_info") or [{"version": 0}]
        return int(current[0]["version"]) or None
    if role == "predictor":
        return _served(answer)
    return None


def _served(status: Mapping[str, Any]) -> int | None:
    """The version of the first model that a predictor's status tells of."""
    models = status.get("models")
    values = list(models.values()) if isinstance(models, dict) else models if isinstance(models, list) else []
    for one in values:
        version = one.get("version") if isinstance(one, dict) else None
        if isinstance(version, int):
            return version
    return None


def _complaints(found: Mapping[str, Any], state: Path) -> list[str]:
    if not found["up"]:
        return [
            f"the suite's supervisor, process {found.get('pid')}, is gone without having stopped it; "
            f"`clickline up --state {state}` goes on from what there is, `clickline down {state}` clears it away"
        ]
    said = [f"{one['name']}: {one['health']}" for one in found["components"] if one["health"] != WELL]
    return said + ([f"transfer: {found['problem']}"] if found["problem"] else [])
