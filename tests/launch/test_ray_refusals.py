"""What `--on ray` refuses, before anything is started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.errors import JobError, PeerError
from clickline.launch.hosts.data_view import DataView
from clickline.launch.hosts.workspace_archive import packed, unpack
from clickline.launch.ray.ray_launcher import check_data, check_job, check_versions, fitted
from clickline.launch.ray.role_actor import RolePlace
from clickline.launch.ray.role_placement import roles_of
from support.processes import ENVIRONMENT, run, small_settings, write_job


def job(**cluster: Any) -> Job:
    return Job.model_validate({"cluster": {"pservers": 2, "trainers": 4, **cluster}})


def test_without_a_cluster_it_says_how_to_start_one(criteo, tmp_path):
    pytest.importorskip("ray")
    path = write_job(tmp_path / "job.yaml", small_settings(criteo, tmp_path) | {"cluster": {"pservers": 1}})
    # Ray notes the address of the cluster that it has started in this directory; here it has started none.
    env = {**ENVIRONMENT, "RAY_TMPDIR": str(tmp_path), "CLICKLINE_STATE": str(tmp_path / "jobs")}
    env.pop("RAY_ADDRESS", None)
    done = run("train", path, "--on", "ray", env=env)
    assert done.returncode != 0
    assert "ray start --head" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_the_package_it_says_what_to_install(tmp_path):
    program = (
        "import sys; sys.modules['ray'] = None\n"
        "from clickline.launch.ray.ray_cluster import import_ray\n"
        "from clickline.errors import JobError\n"
        "try: import_ray()\n"
        "except JobError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'clickline[ray]'" in done.stdout


@pytest.mark.parametrize("address", ["local", "ray://127.0.0.1:10001"])
def test_an_address_that_would_start_a_cluster_or_is_of_no_node_is_refused(monkeypatch, address):
    pytest.importorskip("ray")
    from clickline.launch.ray.ray_cluster import connected

    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(JobError, match="expected HOST:PORT"), connected():
        pass


def test_hosts_of_the_job_are_refused():
    with pytest.raises(JobError, match="Ray chooses the nodes"):
        check_job(job(hosts=[{"host": "node1"}]))


def test_one_process_is_refused_and_ranks_alone_are_not():
    with pytest.raises(JobError, match=r"cluster\.pservers"):
        check_job(job(pservers=0, trainers=1))
    ranks = job(pservers=0, trainers=2)
    check_job(ranks)
    assert [role.name for role in roles_of(ranks)] == ["trainer.0", "trainer.1"]


def test_data_that_nodes_do_not_see_alike_is_told_for_each():
    roles = roles_of(job(pservers=1, trainers=2))
    here, there = DataView(files=2, bytes=10), DataView(problem="no such file: 'b.tsv'")
    views = [here, DataView(), there, DataView(files=1, bytes=7)]
    places = [
        RolePlace(node=f"n{number}", address=f"10.0.0.{number}", clickline="0.1.0", directory="/jobs", data=view)
        for number, view in enumerate(views)
    ]
    with pytest.raises(PeerError) as refused:
        check_data(roles, places)
    assert "  10.0.0.2: no such file: 'b.tsv'" in str(refused.value)
    assert "  10.0.0.3: it sees 1 files of data with 7 bytes, 10.0.0.0 sees 2 with 10" in str(refused.value)
    assert "10.0.0.1" not in str(refused.value), "servers read no data"


def test_a_node_with_another_version_is_named():
    place = RolePlace(node="n", address="10.0.0.7", clickline="0.0.1", directory="/jobs")
    with pytest.raises(PeerError, match=r"10\.0\.0\.7 has 0\.0\.1"):
        check_versions([place])


def test_after_a_loss_there_are_as_many_trainers_as_there_is_room_for():
    assert [role.name for role in roles_of(job(trainers=2))] == [
        "coordinator.0", "pserver.0", "pserver.1", "trainer.0", "trainer.1",
    ]  # fmt: skip
    assert [fitted(job(), cpus=cpus).cluster.trainers for cpus in (20, 7, 6, 4, 2)] == [4, 4, 3, 1, 1]
    assert fitted(job(threads=2), cpus=8).cluster.trainers == 2


def test_a_workspace_is_packed_without_hidden_files_and_runs(tmp_path: Path):
    import io
    import tarfile

    for name in ("model.py", "own/reader.py", ".secret", "runs/old/job.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    with tarfile.open(fileobj=io.BytesIO(packed(tmp_path))) as archive:
        assert sorted(archive.getnames()) == ["model.py", "own/reader.py"]
    unpack(packed(tmp_path), tmp_path / "there")
    assert (tmp_path / "there" / "own" / "reader.py").read_text() == "own/reader.py"


@pytest.mark.parametrize(("name", "kind"), [("../outside", b"0"), ("/etc/outside", b"0"), ("link", b"2")])
def test_an_archive_with_anything_but_files_below_the_directory_is_refused(tmp_path: Path, name: str, kind: bytes):
    import io
    import tarfile

    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member, io.BytesIO())
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="not a file below"):
        unpack(out.getvalue(), tmp_path / "there")
    assert not (tmp_path / "outside").exists()


def test_data_of_single_nodes_is_refused_since_trainers_may_move():
    placed = Job.model_validate({"data": {"placement": "node"}, "cluster": {"pservers": 1}})
    with pytest.raises(JobError, match="expected shared or split"):
        check_job(placed)
