"""Whatever a request says: an answer, none of the fives but where it is documented, and nothing outside is touched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from support.fuzz.budget import budgeted, judged
from support.fuzz.mutations import CORPUS, mutated

Targets = dict[str, Callable[[bytes], bool]]
KINDS = ("files", "agent", "transfer", "control")


@pytest.mark.parametrize("path", [path for kind in KINDS for path in sorted((CORPUS / kind).iterdir())],
                         ids=lambda path: f"{path.parent.name}/{path.name}")  # fmt: skip
def test_kept_requests(targets: Targets, path: object) -> None:
    kind = path.parent.name  # type: ignore[attr-defined]
    accepted = judged(kind, targets[kind], path.read_bytes())  # type: ignore[attr-defined]
    assert accepted or not path.name.startswith("good-")  # type: ignore[attr-defined]


@budgeted(default=80)
@given(mutated("files", split=b"\n\n"))
def test_requests_to_the_file_server(targets: Targets, request_bytes: bytes) -> None:
    judged("files", targets["files"], request_bytes)


@budgeted(default=80)
@given(mutated("agent", split=b"\n\n"))
def test_requests_to_an_agent(targets: Targets, request_bytes: bytes) -> None:
    judged("agent", targets["agent"], request_bytes)


@budgeted(default=80)
@given(mutated("transfer", split=b"\n\n"))
def test_requests_to_transfer(targets: Targets, request_bytes: bytes) -> None:
    judged("transfer", targets["transfer"], request_bytes)


@budgeted(default=80)
@given(mutated("control", split=b"\n\n"))
def test_requests_to_a_cube_server(targets: Targets, request_bytes: bytes) -> None:
    judged("control", targets["control"], request_bytes)
