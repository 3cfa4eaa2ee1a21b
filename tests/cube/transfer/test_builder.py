"""The builder: shards hold exactly their rows; bad input fails loudly and leaves nothing; what is built stays."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

from clickline import _native
from clickline.compat.cube.http.meta_info import MetaInfoFiles
from clickline.cube.builder.build_record import find_build
from clickline.cube.builder.builder import build
from clickline.cube.builder.version_source import PublishedSource
from clickline.cube.shard_files import read_shard, write_tar
from clickline.errors import VersionError
from clickline.files import failpoints
from clickline.files.digests import sealed_json
from clickline.versions.store import open_store
from support.processes import ENVIRONMENT, run, start
from support.versions.version_stores import VersionStore, keys_from, rows_of


def rows_to_build(store: VersionStore, version: int, scratch: Path):
    source = PublishedSource(open_store(store.path))
    return source.rows(source.chain(version)[-1], scratch=scratch)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_each_key_is_in_its_shard_and_nowhere_else(store: VersionStore, tmp_path: Path, shards: int) -> None:
    keys = keys_from(1, 2000)
    version = store.base(keys, tables=("embedding", "wide"))
    made = build(rows_to_build(store, version, tmp_path), out=tmp_path / "out", name="d", shards=shards)
    assert made.path.name == f"{version}_{version}"
    seen = {"embedding": 0, "wide": 0}
    for shard, (first, last) in enumerate(_native.owner_ranges(shards)):
        found = read_shard(made.path / f"d_part{shard}.tar")
        assert (found.version, found.parent, found.header.shards) == (version, None, shards)
        for table, place in found.tables.items():
            assert place.offset % 512 == 0
            dictionary = place.open()
            dictionary.verify()
            inside = np.array([first <= _native.bucket_of(key) < last for key in keys.tolist()])
            status, values = dictionary.lookup(keys)
            assert np.array_equal(status == 0, inside)
            decoded = _native.decode_rows(values, 1, dictionary.dim)
            assert np.array_equal(decoded[inside], rows_of(keys, version, dim=dictionary.dim)[inside])
            seen[table] += dictionary.count
    assert seen == {"embedding": len(keys), "wide": len(keys)}


def test_going_from_two_shards_to_three_moves_only_what_must_move(store: VersionStore, tmp_path: Path) -> None:
    keys = keys_from(1, 3000)
    version = store.base(keys)
    owners = {}
    for shards in (2, 3):
        made = build(rows_to_build(store, version, tmp_path), out=tmp_path / str(shards), name="d", shards=shards)
        for shard in range(shards):
            (place,) = read_shard(made.path / f"d_part{shard}.tar").tables.values()
            owners.update({(shards, key): shard for key in place.open().keys().tolist()})
    moved = sum(owners[2, key] != owners[3, key] for key in keys.tolist())
    print(f"2 to 3 shards: {moved} of {len(keys)} keys move")
    assert moved < 0.55 * len(keys)  # modulo would move two thirds


def test_the_layout_of_cube_beside_the_tar(store: VersionStore, tmp_path: Path) -> None:
    version = store.base(keys_from(1, 501))
    rows = rows_to_build(store, version, tmp_path)
    made = build(rows, out=tmp_path / "out", name="d", shards=1, listener=MetaInfoFiles())
    tar = made.path / "d_part0.tar"
    content = tar.read_bytes()
    assert (made.path / "d_part0.tar.md5").read_text().split() == [
        hashlib.md5(content, usedforsecurity=False).hexdigest(),
        "d_part0.tar",
    ]
    assert made.record.files["d_part0.tar"].sha256 == hashlib.sha256(content).hexdigest()
    meta = json.loads((tmp_path / "out" / "meta_info" / f"{version}_{version}_0_0.json").read_text())
    assert meta == {"index_total_count": "500", "data_len_list": [str(20 * 500)], "index_len_list": [str(16 * 500)]}
    with tarfile.open(tar) as plain:
        assert plain.getnames() == ["shard.json", "embedding.dict"]


def test_a_delta_keeps_what_it_deletes(store: VersionStore, tmp_path: Path) -> None:
    base = store.base(keys_from(1, 100))
    version = store.delta(keys_from(5, 10), keys_from(20, 30))
    made = build(rows_to_build(store, version, tmp_path), out=tmp_path / "out", name="d", shards=1)
    assert made.path.name == f"{base}_{version}"
    found = read_shard(made.path / "d_part0.tar")
    dictionary = found.tables["embedding"].open()
    assert (found.parent, dictionary.count, dictionary.deleted) == (base, 5, 10)


def test_what_is_built_is_not_built_again(store: VersionStore, tmp_path: Path) -> None:
    version = store.base(keys_from(1, 100))
    rows = rows_to_build(store, version, tmp_path)
    first = build(rows, out=tmp_path / "out", name="d", shards=2)
    before = (first.path / "build.json").stat().st_mtime_ns
    assert build(rows, out=tmp_path / "out", name="d", shards=2).record == first.record
    assert (first.path / "build.json").stat().st_mtime_ns == before
    assert len(build(rows, out=tmp_path / "out", name="d", shards=3).record.files) == 3


def test_the_same_rows_make_the_same_bytes(store: VersionStore, tmp_path: Path) -> None:
    version = store.base(keys_from(1, 100))
    rows = rows_to_build(store, version, tmp_path)
    one, other = (build(rows, out=tmp_path / name, name="d", shards=2) for name in ("one", "other"))
    assert [f.sha256 for f in one.record.files.values()] == [f.sha256 for f in other.record.files.values()]


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_damaged_input_leaves_nothing(store: VersionStore, tmp_path: Path, damage: str) -> None:
    version = store.base(keys_from(1, 100))
    file = store.path / f"v{version:010d}" / "embedding.dict"
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "cut":
        file.write_bytes(content[:-64])
    else:
        file.unlink()
    result = run("build", store.path, "--to", tmp_path / "out", "--shards", "2", "--json")
    assert result.returncode == 8
    assert "embedding.dict" in json.loads(result.stdout)["error"]["message"]
    assert [path for path in (tmp_path / "out").rglob("*") if path.name != ".lock"] == []


def test_the_verb_builds_a_chain(store: VersionStore, tmp_path: Path) -> None:
    store.base(keys_from(1, 100))
    store.delta(keys_from(5, 10))
    result = run("build", store.path, "--to", tmp_path / "out", "--shards", "2", "--name", "ctr", "--json")
    assert result.returncode == 0, result.stderr
    assert [Path(one["path"]).name for one in json.loads(result.stdout)] == ["1_1", "1_2"]
    assert (tmp_path / "out" / "1_2" / "ctr_part1.tar").exists()


@pytest.mark.heavy
@pytest.mark.parametrize("point", [name for name in failpoints.NAMES if name.startswith("builder.")])
def test_a_killed_builder_leaves_a_whole_build_or_none(store: VersionStore, tmp_path: Path, point: str) -> None:
    version = store.base(keys_from(1, 100))
    out = tmp_path / "out"
    arguments = ("build", store.path, "--to", out, "--shards", "2")
    (out / ".building-7_7").mkdir(parents=True)  # of one that was killed before
    ENVIRONMENT["CLICKLINE_FAIL_AT"] = point
    try:
        process = start(*arguments)
    finally:
        del ENVIRONMENT["CLICKLINE_FAIL_AT"]
    process.communicate(timeout=60)
    assert process.returncode == -9
    assert (find_build(out, version, version) is not None) == (point == "builder.built")
    assert run(*arguments).returncode == 0
    assert find_build(out, version, version) is not None
    assert sorted(path.name for path in out.iterdir()) == [".lock", f"{version}_{version}", "meta_info"]


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"format": 1},
        {"format": 1, "version": 1, "base": 1, "shard": 0, "shards": 1, "name": "d", "kind": "delta", "tables": {}},
        {
            "format": 1,
            "version": 1,
            "base": 1,
            "shard": 0,
            "shards": 1,
            "name": "d",
            "kind": "base",
            "tables": {"t": 1},
        },
        {
            "format": 1,
            "version": 1,
            "base": 1,
            "shard": 0,
            "shards": 1,
            "name": "d",
            "kind": "base",
            "tables": {"t": {}},
        },
    ],
)
def test_a_tar_that_does_not_fit_together_is_refused(tmp_path: Path, facts: dict[str, object]) -> None:
    class Header:
        def encoded(self) -> bytes:
            return sealed_json(facts)

    write_tar(tmp_path / "x.tar", Header(), {})  # type: ignore[arg-type]
    with pytest.raises(VersionError, match="not a shard's file"):
        read_shard(tmp_path / "x.tar")


def test_rubbish_is_no_shard(tmp_path: Path) -> None:
    for content in (b"", b"x" * 5000, bytes(10240)):
        (tmp_path / "x.tar").write_bytes(content)
        with pytest.raises(VersionError, match="not a shard's file"):
            read_shard(tmp_path / "x.tar")
