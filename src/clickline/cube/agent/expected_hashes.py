"""What a file's hashes must be: from the command, else from what lies beside the file at its source.

Beside a build of ours lies build.json, with a SHA-256 for every file; beside one of Cube's builder a `.md5`.
"""

from __future__ import annotations

import json
import re

import httpx

from clickline.cube.agent.download import ExpectedHashes
from clickline.errors import PeerError, VersionError

SHA256 = re.compile(r"[0-9a-f]{64}")
_LARGEST = 1 << 24


def expected_hashes(client: httpx.Client, source: str, *, sha256: str) -> ExpectedHashes:
    """The hashes of the file at `source`. Raises PeerError and VersionError."""
    if sha256:
        return ExpectedHashes(sha256=sha256.lower())
    folder, _, name = source.rpartition("/")
    build = _read_small(client, f"{folder}/build.json")
    try:
        sha256 = str(json.loads(build)["files"][name]["sha256"]).lower() if build else ""
    except (ValueError, KeyError, TypeError):
        raise VersionError(f"{source}: the build.json beside it does not list its SHA-256") from None
    md5 = _read_small(client, f"{source}.md5").split()
    if sha256 and not SHA256.fullmatch(sha256):
        raise VersionError(f"{source}: its SHA-256 must be 64 hexadecimal digits, not {sha256!r:.80}")
    return ExpectedHashes(sha256=sha256, md5=md5[0].decode("ascii", "replace").lower() if md5 else "")


def _read_small(client: httpx.Client, url: str) -> bytes:
    """A small file; empty if there is none."""
    try:
        with client.stream("GET", url) as answer:
            if answer.status_code == 404:
                return b""
            if answer.status_code != 200:
                raise PeerError(f"{url}: HTTP {answer.status_code}")
            content = b""
            for block in answer.iter_bytes():
                content += block
                if len(content) > _LARGEST:  # the source is not trusted with sizes
                    raise PeerError(f"{url}: larger than {_LARGEST} bytes")
            return content
    except httpx.HTTPError as error:
        raise PeerError(f"{url}: {type(error).__name__}: {error}") from None
