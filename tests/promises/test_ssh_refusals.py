"""What is wrong with hosts is named per host, all at once, before anything is started on any of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from support.hosts.ssh_hosts import PORT, SshHosts, ssh_hosts, unavailable
from support.processes import run, write_job

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    if why := unavailable():
        pytest.skip(why)
    with ssh_hosts(tmp_path_factory.mktemp("ssh") / "hosts", megabytes=96) as both:
        yield both


def refused(
    hosts: SshHosts,
    criteo: dict[str, str],
    tmp_path: Path,
    entries: list[dict[str, Any]],
    options: tuple[str | Path, ...] = (),
    **more: Any,
) -> str:
    """What is said of a job that must not be started."""
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    entries = [{"python": sys.executable, **entry} for entry in entries]
    content = {
        "data": {"train": [criteo["train"]]},
        "strategy": "async",
        "cluster": {"hosts": entries, "root": str(hosts.private / "jobs"), **more},
    }
    done = hosts.run("train", write_job(workspace / "job.yaml", content), "--on", "ssh", *options)
    assert done.returncode != 0
    assert "nothing was started" in done.stderr
    for name in ("one", "other"):
        assert hosts.processes(name) == []
        assert b"JOB" not in hosts.on(name, f"ls {hosts.private}/jobs 2> /dev/null || true")
    return done.stderr


def test_hosts_that_cannot_be_reached_are_all_named(hosts, criteo, tmp_path):
    entries = [
        {"host": "one", "address": hosts.network.one.address},
        {"host": "198.18.7.77"},
        {"host": "no-such-host.invalid"},
        {"host": "root@198.18.7.2", "ssh_port": PORT + 1},
    ]
    said = refused(hosts, criteo, tmp_path, entries)
    assert "no-such-host.invalid: " in said and "the name is unknown here" in said
    assert "root@198.18.7.2: " in said and "no sshd listens there" in said
    assert "198.18.7.77: " in said
    assert "one: " not in said


def test_a_key_that_is_not_accepted_and_a_host_key_that_is_not_known(hosts, criteo, tmp_path):
    config = hosts.directory / "config"
    before = config.read_text()
    (tmp_path / "known").write_text("")
    # The first value counts. A configuration that does not check host keys is overruled.
    changed = (
        f"Host one\n  IdentityFile {hosts.directory}/stranger\n"
        f"Host other\n  IdentityFile {hosts.directory}/client\n  UserKnownHostsFile {tmp_path}/known\n"
        "  StrictHostKeyChecking no\n"
    )
    without_key = "\n".join(line for line in before.splitlines() if "IdentityFile" not in line)
    try:
        config.write_text(f"{changed}{without_key}\n")
        entries = [{"host": "one", "address": "198.18.7.1"}, {"host": "other", "address": "198.18.7.2"}]
        said = refused(hosts, criteo, tmp_path, entries)
    finally:
        config.write_text(before)
    assert "no key of yours is accepted there: `ssh-copy-id one`" in said
    assert "its key is not, or not the one, in known_hosts: `ssh other` once by hand" in said


def test_a_busy_port_a_full_disk_another_version_and_a_name_that_leads_nowhere(hosts, criteo, tmp_path):
    listener = subprocess.Popen(
        [
            "ip",
            "netns",
            "exec",
            hosts.network.one.namespace,
            sys.executable,
            "-c",
            "import socket, time; s = socket.create_server(('', 7164)); print('on', flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE,
    )
    assert listener.stdout is not None
    listener.stdout.readline()
    old = tmp_path / "old"
    package = old / "clickline-0.0.1.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: clickline\nVersion: 0.0.1\n")
    hosts.on("other", f"mkdir -p {hosts.private}/jobs && head -c 60000000 /dev/zero > {hosts.private}/filler")
    try:
        entries = [
            {"host": "one", "address": "198.18.7.1"},
            {"host": "other", "address": "localhost", "python": f"env PYTHONPATH={old} {sys.executable}"},
        ]
        said = refused(hosts, criteo, tmp_path, entries, port=7164)
    finally:
        hosts.on("other", f"rm {hosts.private}/filler")
        listener.kill()
        listener.communicate()
    assert "one: port 7164 cannot be had: " in said
    assert "other: it has clickline 0.0.1, here is " in said
    assert "MB free, 67 MB are needed" in said
    assert "other: 'localhost' leads to " in said and "set cluster.hosts[].address" in said


def test_a_workspace_that_is_not_deployed_is_named_for_each_host_that_lacks_it(hosts, criteo, tmp_path):
    hosts.on("one", f"mkdir {hosts.private}/demo")
    hosts.on("other", f"echo a file > {hosts.private}/demo")
    lines = [f"root@{host.address}:{PORT}\n" for host in (hosts.network.one, hosts.network.other)]
    (tmp_path / "hostfile").write_text("".join(lines))
    options = ("--hosts", tmp_path / "hostfile", "--python", sys.executable)
    said = refused(hosts, criteo, tmp_path, [], (*options, "--job-workspace", f"{hosts.private}/demo"))
    assert f"root@198.18.7.2: there is no directory {hosts.private}/demo that can be read" in said
    assert "root@198.18.7.1: " not in said
    said = refused(hosts, criteo, tmp_path, [], (*options, "--job-workspace", "/none/there"))
    assert said.count("there is no directory /none/there that can be read") == 2


def test_a_wheel_that_cannot_be_installed_is_told_for_each_host_before_anything_starts(hosts, criteo, tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    wheel = tmp_path / f"clickline-{version('clickline')}-py3-none-any.whl"
    wheel.write_bytes(b"not a wheel")
    lines = [f"root@{host.address}:{PORT}\n" for host in (hosts.network.one, hosts.network.other)]
    (tmp_path / "hostfile").write_text("".join(lines))
    content = {"data": {"train": [criteo["train"]]}, "cluster": {"root": f"{hosts.private}/installing"}}
    job = write_job(workspace / "job.yaml", content)
    options = ("--on", "ssh", "--hosts", tmp_path / "hostfile", "--python", sys.executable)
    done = hosts.run("train", job, *options, "--install", wheel)
    assert done.returncode == 7
    assert f"nothing was started: {wheel.name} could not be installed" in done.stderr
    for address in ("198.18.7.1", "198.18.7.2"):
        assert f"  root@{address}: exit code 1: " in done.stderr
    assert hosts.processes("one") == hosts.processes("other") == []

    other = wheel.rename(tmp_path / "clickline-0.0.1-py3-none-any.whl")
    done = hosts.run("train", job, *options, "--install", other)
    assert done.returncode == 3
    assert "it has clickline 0.0.1, here is " in done.stderr


def test_data_that_a_host_does_not_see_is_told_for_each_before_anything_starts(hosts, criteo, tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    root = f"{hosts.private}/unseen"
    hosts.on("one", f"mkdir {root} && cp {criteo['train']} {root}/train.tsv")
    entries = [
        {"host": name, "address": address, "python": sys.executable, "pservers": 0}
        for name, address in (("one", "198.18.7.1"), ("other", "198.18.7.2"))
    ]
    content = {"data": {"train": ["../train.tsv"]}, "cluster": {"hosts": entries, "root": root}}
    job = write_job(workspace / "job.yaml", content)
    done = hosts.run("train", job, "--on", "ssh")
    assert done.returncode == 7
    assert "nothing was started:\n  other: no such file or directory: " in done.stderr
    hosts.on("other", f"head -n 10 {criteo['train']} > {root}/train.tsv")
    done = hosts.run("train", job, "--on", "ssh")
    assert done.returncode == 7
    assert "other: it sees 1 files of data with " in done.stderr
    assert hosts.processes("one") == hosts.processes("other") == []


NO_RUN = {
    "one process": ({"strategy": "single"}, [{}], "leave out --on"),
    "servers of ranks": (
        {"strategy": "collective"},
        [{}, {"pservers": 2}],
        "cluster.hosts[1].pservers: 2 parameter servers",
    ),
    "no first rank": (
        {"strategy": "collective"},
        [{"trainers": 0}, {}],
        "cluster.hosts[0].trainers: 0 on 'a', the first host",
    ),
    "no trainers": ({}, [{"trainers": 0}], "cluster.hosts: no host has trainers"),
    "no servers": ({"strategy": "sync"}, [{"pservers": 0}], "cluster.hosts: no host has pservers"),
}


@pytest.mark.parametrize("why", NO_RUN)
def test_hosts_of_which_no_run_can_come_are_refused_with_what_to_do(tmp_path, why):
    changes, entries, message = NO_RUN[why]
    hosts = [{"host": name, **entry} for name, entry in zip("ab", entries, strict=False)]
    content = {"data": {"train": ["none.tsv"]}, "cluster": {"hosts": hosts}, **changes}
    done = run("train", write_job(tmp_path / "job.yaml", content), "--on", "ssh")
    assert done.returncode == 3
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
