"""A request as literal bytes, given to an application as the HTTP server would, without one between: no client tidies
up the path, and what the application throws is seen here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp

LARGEST_ANSWER = 32 << 20
RUNNER = asyncio.Runner()


@dataclass
class Answer:
    status: int = 0
    body: bytearray = field(default_factory=bytearray)


def scope_of(request: bytes) -> tuple[dict[str, Any], bytes] | None:
    """None if no HTTP server would pass it on."""
    head, _, body = request.partition(b"\n\n")
    lines = head.split(b"\n")
    words = lines[0].split(b" ")
    if len(words) != 2 or not words[0].isalpha() or not words[1].startswith(b"/"):
        return None
    target = words[1].partition(b"#")[0]
    if any(not 0x21 <= byte < 0x7F for byte in target):
        return None
    raw_path, _, query = target.partition(b"?")
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        if not colon or not name or any(not 0x21 <= byte < 0x7F for byte in name) or b"\0" in value or b"\r" in value:
            return None
        headers.append((name.lower(), value.strip()))
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "scheme": "http",
        "root_path": "",
        "method": words[0].decode(),
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "headers": headers,
    }
    return scope, body


def ask(app: ASGIApp, request: bytes) -> Answer | None:
    """What it answers; None if the request is none."""
    made = scope_of(request)
    if made is None:
        return None
    scope, body = made
    answer = Answer()
    pieces = [body[at : at + 1000] for at in range(0, min(len(body), 5000), 1000)]
    pieces.append(body[len(pieces) * 1000 :])

    async def receive() -> dict[str, Any]:
        if not pieces:
            return {"type": "http.disconnect"}
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            assert not answer.status
            answer.status = message["status"]
        else:
            answer.body += message.get("body", b"")
            assert len(answer.body) <= LARGEST_ANSWER

    async def asked() -> None:
        await app(scope, receive, send)

    RUNNER.run(asked())
    assert answer.status, "no answer"
    return answer
