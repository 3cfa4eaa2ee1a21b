"""Keys of PaddleRec's files that exclude each other: each pair has its own message, by the key to change."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clickline.compat.paddlerec.job_files import read_job_file
from clickline.errors import JobError
from support.paddlerec.documented import changed, copied
from support.paddlerec.zoo_configs import flat_config

QUEUE = "type: QueueDataset"
FIRST = {
    "collective on the CPU": (
        {"device": "device: cpu\n  fleet_mode: collective"},
        r"fleet_mode, line \d+: collective with",
    ),
    "ps on a GPU": ({"device": "device: gpu\n  fleet_mode: ps"}, r"fleet_mode, line \d+: ps with device gpu"),
    "a cluster on GPUs without a fleet": ({"device": "device: gpu", "class": "class: cluster_train"}, "device, line"),
    "several GPUs on the CPU": ({"device": 'device: cpu\n  selected_gpus: "0,1"'}, "several GPUs, but device is cpu"),
    "infer on several": ({"class": "class: infer\n  worker_num: 2"}, "no distributed infer"),
    "a queue and collective": (
        {"device": "device: gpu\n  fleet_mode: collective", "type": QUEUE},
        "collective does not read a QueueDataset",
    ),
    "a queue and saved steps": ({"epochs": "save_step_interval: 2", "type": QUEUE}, "steps cannot be saved of a Queue"),
    "an unknown runner": ({"mode": "mode: [single_cpu_trian]"}, r"mode\[0\], line \d+: no runner .*did you mean"),
    "a runner that is a number": ({"mode": "mode: 0"}, r"mode, line \d+: no runner '0'"),
    "an unknown phase": ({"phases": "phases: [phase9]"}, r"phases\[0\], line \d+: no phase 'phase9'"),
    "an unknown dataset": ({"dataset_name": "dataset_name: other"}, r"phase\[0\]\.dataset_name, line \d+: no dataset"),
    "rows that nothing describes": ({"sparse_slots": "", "dense_slots": ""}, r"dataset\[0\]\.sparse_slots.*missing"),
    "no such strategy": ({"device": "distribute_strategy: asink"}, "did you mean async"),
    "no such engine": ({"class": "class: trian"}, "not one of train, infer, local_cluster_train, cluster_train"),
    "a shape that is none": ({"dense_slots": 'dense_slots: "a:b"'}, r"dense_slots, line \d+: 'a:b' is not NAME:SIZE"),
}
FLAT = {
    "a queue and fleet": ({"use_fleet": True}, "use_fleet is collective, which does not read a QueueDataset"),
    "a queue without its command": ({"pipe_command": ""}, "pipe_command.*: missing"),
    "two devices": ({"use_gpu": True, "use_xpu": True}, "a run has one device"),
    "no epoch to test": ({"infer_start_epoch": 2}, "no epoch would be tested"),
    "servers and fleet": (
        {"use_fleet": True, "reader_type": "DataLoader"},
        "sync_mode, line .*: parameter servers, but",
    ),
    "no such strategy": ({"sync_mode": "asink"}, 'sync_mode.*"asink" is not one of sync, async'),
    "no epochs": ({"epochs": None}, "runner.epochs, line .*: missing; how often"),
    "geo without steps": ({"sync_mode": "geo"}, "geo_step.*: missing"),
}


@pytest.mark.parametrize("case", FIRST)
def test_a_pair_of_the_first_generation_is_refused(tmp_path: Path, case: str) -> None:
    replacements, expected = FIRST[case]
    with pytest.raises(JobError, match=expected):
        read_job_file(str(changed("single_config", tmp_path, **replacements)))


@pytest.mark.parametrize("case", FLAT)
def test_a_pair_of_the_flat_generation_is_refused(tmp_path: Path, case: str) -> None:
    changes, expected = FLAT[case]
    config = flat_config("dnn")
    config["runner"] |= changes
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(JobError, match=expected):
        read_job_file(str(tmp_path / "config.yaml"))


@pytest.mark.parametrize(
    ("config", "expected"),
    [("k8s_collective_config", "mpi nodes have no GPU"), ("mpi_config", "")],
)
def test_mpi_is_for_parameter_servers_on_the_cpu(tmp_path: Path, config: str, expected: str) -> None:
    file, backend = str(copied(config, tmp_path)), str(copied("mpi_backend", tmp_path))
    if not expected:
        read_job_file(file, backend=backend)
        return
    with pytest.raises(JobError, match=rf"cluster_type, line 2: {expected}"):
        read_job_file(file, backend=backend)


@pytest.mark.parametrize(
    ("backend", "replacements", "expected"),
    [
        ("mpi_backend", {"train_data_path": ""}, "train_data_path.*: missing; mpi fetches"),
        ("k8s_ps_backend", {"afs_remote_mount_point": ""}, "afs_remote_mount_point.*: missing; k8s mounts"),
        ("mpi_backend", {"backend": "backend: PadleCloud"}, "no backend 'PadleCloud' here; did you mean PaddleCloud"),
        ("mpi_backend", {"cluster_type": "cluster_type: yarn"}, "not one of mpi, k8s"),
        ("mpi_backend", {"priority": "priority: urgent"}, "not one of normal, high, very_high"),
        ("mpi_backend", {"nodes": "nodes: 0"}, "0 is too small; must be at least 1"),
    ],
)
def test_a_wrong_backend_is_refused(tmp_path: Path, backend: str, replacements: dict[str, str], expected: str) -> None:
    config = copied(backend.replace("backend", "config"), tmp_path)
    with pytest.raises(JobError, match=expected):
        read_job_file(str(config), backend=str(changed(backend, tmp_path, **replacements)))


def test_mistakes_of_both_files_are_told_at_once(tmp_path: Path) -> None:
    config = changed("mpi_config", tmp_path, epochs="epoch: 2")
    backend = changed("mpi_backend", tmp_path, nodes="node: 2")
    with pytest.raises(JobError, match=r"(?s)config\.yaml: 1 error.*epoch, line.*backend\.yaml: 1 error.*submit\.node"):
        read_job_file(str(config), backend=str(backend))
