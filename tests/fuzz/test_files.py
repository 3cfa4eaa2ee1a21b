"""Whatever bytes a file holds, its reader believes it or refuses it with an error that is meant for people."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fuzz.budget import budgeted, judged
from support.fuzz.file_readers import Readers, resigned
from support.fuzz.mutations import CORPUS, corpus, mutated

KINDS = (
    "manifest", "versions", "base", "patch", "shard-tar", "shard-facts", "build-facts", "transfer-state", "cube-state",
    "download-state", "transfer-conf", "transfer-yaml", "cube-conf",
)  # fmt: skip


@pytest.mark.parametrize("name", [f"{kind}/{path.name}" for kind in KINDS for path in corpus(kind)])
def test_kept_files(tmp_path: Path, name: str) -> None:
    path = CORPUS / name
    accepted = judged(path.parent.name, Readers(tmp_path).targets[path.parent.name], path.read_bytes())
    assert accepted == path.name.startswith("good")


@pytest.mark.parametrize("kind", KINDS)
def test_files_made_of_good_ones(tmp_path: Path, kind: str) -> None:
    target = Readers(tmp_path).targets[kind]
    inputs = mutated(kind)
    if kind == "shard-tar":
        inputs = st.builds(
            lambda data, sign: resigned(data) if sign else data, inputs, st.sampled_from([True] * 7 + [False])
        )

    @budgeted(default=60)
    @given(inputs)
    def each(data: bytes) -> None:
        judged(kind, target, data)

    each()
