"""--hosts FILE: a conf.py, a hostfile or YAML, each as overrides of the job."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.config.loading.reader import read_job
from clickline.errors import JobError
from clickline.launch.hosts.host_list import read_host_list

FILES = {
    "conf.py": "HOSTS = ['root@node1', 'node2:2202']\nROOT_DIR = '/home/paddle'\nPADDLE_PORT = 7164\n",
    "hostfile": "root@node1\nnode2:2202\n",
    "hosts.yaml": "- root@node1\n- {host: node2, ssh_port: 2202}\n",
    "cluster.yml": "hosts: [root@node1, {host: node2, ssh_port: 2202}]\nroot: /home/paddle\nport: 7164\n",
}


@pytest.mark.parametrize("name", FILES)
def test_each_kind_of_file_becomes_hosts_of_the_job(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FILES[name])
    cluster = read_job(None, overrides=read_host_list(tmp_path / name).overrides(python="/opt/python")).job.cluster
    assert [(host.host, host.ssh_port, host.python) for host in cluster.hosts] == [
        ("root@node1", 0, "/opt/python"),
        ("node2", 2202, "/opt/python"),
    ]
    says_more = "ROOT_DIR" in FILES[name] or "root:" in FILES[name]
    assert (cluster.root, cluster.port) == (("/home/paddle", 7164) if says_more else ("~/clickline-jobs", 0))


def test_a_python_of_the_file_is_stronger_than_the_one_for_all(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("[{host: a, python: python3.12}, b]")
    cluster = read_job(None, overrides=read_host_list(tmp_path / "hosts.yaml").overrides(python="/opt/p")).job.cluster
    assert [host.python for host in cluster.hosts] == ["python3.12", "/opt/p"]


def test_what_a_conf_py_says_in_vain_is_told(tmp_path: Path) -> None:
    (tmp_path / "conf.py").write_text("HOSTS = ['a']\nPADDLE_NIC = 'eth0'\n")
    assert "PADDLE_NIC" in read_host_list(tmp_path / "conf.py").notices[0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("hosts.yaml", "7", "expected a list of hosts, such as"),
        ("hosts.yaml", "[]", "expected a list of hosts"),
        ("hosts.yaml", "[7]", "expected a list of hosts"),
        ("hosts.yaml", "{host: a}", "expected a list of hosts"),
        ("hosts.yaml", "[", "cannot be read"),
        ("hosts.yaml", "{hosts: [a], hosts: [b]}", "twice"),
        ("hosts.yaml", "[!!python/object/apply:os.getcwd []]", "is not used in jobs"),
        ("hosts.yaml", "[{host: a, colour: red}]", r"cluster\.hosts\[0\]\.colour"),
        ("hosts.yaml", "[-oProxyCommand=id]", r"cluster\.hosts\[0\]\.host"),
        ("hostfile", "", "no hosts in it"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_words(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(JobError, match=message):
        read_job(None, overrides=read_host_list(tmp_path / name).overrides())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("conf.py", "hostfile", "hosts.yaml"):
        with pytest.raises(JobError, match=f"{name}: cannot be read: .*No such file"):
            read_host_list(tmp_path / name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hosts", "hosts"], "need --on ssh"),
        (["--job-workspace", "/demo"], "need --on ssh"),
        (["--pass-directories"], "need --on ssh"),
        (["--on", "ray", "--hosts", "hosts"], "--hosts is for --on ssh"),
        (["--on", "ssh", "--python", "python3"], "--python is for the hosts of a --hosts file"),
        (["--on", "ssh", "--hosts", "hosts", "--set", "cluster.hosts=[]"], r"cluster\.hosts is empty"),
        (["--on", "ssh", "--hosts", "hosts", "--install", "hosts"], "not a wheel of clickline"),
    ],
)
def test_options_about_hosts_that_have_no_use_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text("data: {train: [log.tsv], format: criteo}\n")
    Path("hosts").write_text("node1\n")
    result = CliRunner().invoke(app, ["train", "job.yaml", *options])
    assert result.exit_code == 3
    assert re.search(message, result.stderr)
