"""conf.py of PaddlePaddle's cluster scripts is read, never executed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.compat.paddle_v1.conf_py import read_conf_py
from clickline.config.cluster import Cluster
from clickline.errors import JobError

WHOLE = '''\
"""The hosts of the demo."""
HOSTS = [
    "root@192.168.220.30",
    "paddle@node2:2202",
]
ROOT_DIR = "/home/paddle"
PADDLE_NIC = "eth0"
PADDLE_PORT = 7164
PADDLE_PORTS_NUM = 2
PADDLE_PORTS_NUM_FOR_SPARSE = 2
LD_LIBRARY_PATH = "/usr/local/cuda/lib64:/usr/lib64"
'''


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "conf.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_hosts_directory_and_port_become_keys_of_the_job(tmp_path: Path) -> None:
    conf = read_conf_py(written(tmp_path, WHOLE))
    cluster = Cluster.model_validate(conf.cluster)
    assert [(host.host, host.ssh_port, host.pservers, host.trainers) for host in cluster.hosts] == [
        ("root@192.168.220.30", 0, 1, 1),
        ("paddle@node2", 2202, 1, 1),
    ]
    assert [host.reached_at for host in cluster.hosts] == ["192.168.220.30", "node2"]
    assert (cluster.root, cluster.port) == ("/home/paddle", 7164)


def test_what_has_no_effect_is_said_by_name(tmp_path: Path) -> None:
    notices = "\n".join(read_conf_py(written(tmp_path, WHOLE)).notices)
    for name in ("PADDLE_NIC", "PADDLE_PORTS_NUM", "PADDLE_PORTS_NUM_FOR_SPARSE", "LD_LIBRARY_PATH"):
        assert f"{name} of " in notices


def test_nothing_in_it_is_executed(tmp_path: Path) -> None:
    trap = tmp_path / "executed"
    text = f"import os\nHOSTS = ['a']\nROOT_DIR = os.mkdir({str(trap)!r})\nopen({str(trap)!r}, 'w')\n"
    conf = read_conf_py(written(tmp_path, text))
    assert not trap.exists()
    assert conf.cluster == {"hosts": [{"host": "a"}]}
    assert [notice.partition("line ")[2][0] for notice in conf.notices] == ["1", "3", "4"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ROOT_DIR = '/x'\n", "HOSTS must be a list of hosts"),
        ("HOSTS = []\n", "HOSTS must be a list of hosts"),
        ("HOSTS = ['-oProxyCommand=id']\n", r"HOSTS has '-oProxyCommand=id'; expected \[USER@\]HOST"),
        ("HOSTS = [7]\n", "HOSTS has 7"),
        ("HOSTS = ['a']\nPADDLE_PORT = '7164'\n", "PADDLE_PORT is '7164'; expected a whole number"),
        ("HOSTS = ['a'\n", "cannot be read: .*never closed"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_words(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        Cluster.model_validate(read_conf_py(written(tmp_path, text)).cluster)
