"""clickline submit: every documented file makes its folder, everything that is wrong is told first and at once."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from clickline.cli.all_verbs import app
from clickline.compat.paddlerec.submission import upload_files
from clickline.compat.paddlerec.submission.job_script import read_job_script
from clickline.compat.paddlerec.submission.submission import read_submission
from clickline.launch.background.submission_order import host_overrides
from support.paddlerec.documented import SUBMISSIONS, changed, copied
from support.paddlerec.submissions import edit, made_folder, write_files
from support.paddlerec.zoo_configs import write_workspace
from support.small_disks import small_disk

BACKEND = ("submit", "-m", "config.yaml", "-b", "backend.yaml")


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CLICKLINE_AK", "CLICKLINE_SK", "CLICKLINE_FS_UGI", "CLICKLINE_CREDENTIALS", "PADDLE_PADDLEREC_ROLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("CLICKLINE_STATE", str(tmp_path / "jobs"))
    (tmp_path / "dnn").mkdir()
    monkeypatch.chdir(tmp_path / "dnn")


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def dry(*words: str) -> Path:
    result = invoke(*words, "--dry-run")
    assert result.exit_code == 0, result.output
    return made_folder(result.stdout)


def refused(*words: str) -> str:
    """What is said of a submission of which nothing is left."""
    before = sorted(Path().iterdir())
    result = invoke(*words)
    assert result.exit_code == 3, result.output
    assert sorted(Path().iterdir()) == before
    assert not (Path.cwd().parent / "jobs").exists()
    return result.stderr


@pytest.mark.parametrize(("config", "backend"), SUBMISSIONS)
def test_every_documented_submission_makes_its_folder(config: str, backend: str) -> None:
    copied(config, Path())
    copied(backend, Path())
    Path("model.py").write_text("import paddle.fluid as fluid\n")
    kind, device = ("k8s", "gpu" if "collective" in config else "cpu") if "k8s" in config else ("mpi", "cpu")
    result = invoke("submit", "-m", "config.yaml", "-b", "backend.yaml", "--dry-run")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    folder = made_folder(result.stdout)
    first = lines.index(f"The task submission folder is generated at {folder}")
    assert lines[first + 1 :] == [
        "before_submit",
        f"gen {device} before_hook.sh",
        f"gen {kind}_config.ini",
        f"gen {kind}_job.sh",
        "gen end_hook.sh",
        "Start checking your job configuration, please be patient.",
        "Congratulations! Job configuration check passed!",
        f"nothing was started; `sh {folder}/job.sh` does that",
        "end submit",
    ]
    assert folder.parent == Path.cwd()
    assert re.fullmatch(r"PaddleRec_CTR_\d{12}", folder.name)
    generated = {"before_hook.sh", "config.ini", "end_hook.sh", "job.sh"} | (
        {"kubernetes.yaml"} if kind == "k8s" else set()
    )
    assert {path.name for path in folder.iterdir()} == {"backend.yaml", "config.yaml", "model.py", *generated}
    assert "usr,pwd" not in "".join(path.read_text() for path in folder.iterdir())
    # By its own script, in a directory of another name.
    again = subprocess.run(["sh", str(folder / "job.sh"), "--dry-run"], capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[0] == "Start checking your job configuration, please be patient."


@pytest.mark.parametrize(
    ("verb", "config", "counts"),
    [("submit", "k8s_ps", {"ps": 2, "worker": 2}), ("run", "k8s_collective", {"worker": 2})],
)
def test_kubernetes_gets_a_paddlejob_or_it_is_said_why_not(
    monkeypatch: pytest.MonkeyPatch, verb: str, config: str, counts: dict[str, int]
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere/config")
    copied(f"{config}_config", Path())
    mount = "afs_remote_mount_point: /mnt/data"
    changed(f"{config}_backend", Path(), afs_remote_mount_point=mount, fs_name='fs_name: ""')
    result = invoke(verb, *BACKEND[1:])
    assert result.exit_code == 3
    assert "/nowhere/config: cannot be read as a kubeconfig" in result.stderr
    files, job = yaml.safe_load_all((made_folder(result.stdout) / "kubernetes.yaml").read_text())
    assert (job["apiVersion"], job["kind"]) == ("batch.paddlepaddle.org/v1", "PaddleJob")
    assert {"config.yaml", "config.ini", "before_hook.sh"} <= set(files["data"])
    roles = {name: role for name, role in job["spec"].items() if name in ("ps", "worker")}
    assert {name: role["replicas"] for name, role in roles.items()} == counts
    for role in roles.values():
        (container,) = role["template"]["spec"]["containers"]
        assert "python3 -m clickline.run -m ./config.yaml" in container["command"][-1]
        assert {"name": "PADDLE_PADDLEREC_ROLE", "value": "WORKER"} in container["env"]
        assert container["resources"]["limits"]["cpu"] == 4
        assert {"name": "afs", "hostPath": {"path": "/mnt/data"}} in role["template"]["spec"]["volumes"]
    gpus = roles["worker"]["template"]["spec"]["containers"][0]["resources"]["limits"].get("nvidia.com/gpu")
    assert gpus == (1 if "collective" in config else None)


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_left() -> None:
    write_files(Path(), url="afs://cluster")
    changed("mpi_backend", Path(), files="files: ./*.py missing.txt a/x.py b/x.py", start_cmd="start_cmd: python x.py",
            fs_name="fs_name: afs://cluster", train_data_path="train_data_path: /logs")  # fmt: skip
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(name, "x.py").touch()
    said = refused(*BACKEND)
    assert "nothing was submitted: 4 errors" in said
    assert "there is no file 'missing.txt' in " in said
    assert re.search(r"\S+/a/x\.py and \S+/b/x\.py have one name", said)
    assert "start_cmd: 'python x.py' is not understood" in said
    assert "fs_name: afs://cluster/logs: Protocol not known: afs" in said
    # What is wrong in the files themselves comes with their lines.
    changed("mpi_backend", Path(), nodes="nodes: none", priority="priorty: high")
    said = refused(*BACKEND)
    assert re.search(r"submit\.nodes, line \d+", said) and re.search(r"submit\.priorty, line \d+", said)


def test_a_start_cmd_that_names_no_file_of_the_folder_is_refused() -> None:
    write_files(Path())
    changed("mpi_backend", Path(), start_cmd="start_cmd: python -m paddlerec.run -m other.yaml")
    assert (
        "start_cmd: names 'other.yaml', which is not among the files; those that end in .yaml: backend.yaml"
        in refused(*BACKEND)
    )


def test_ssh_needs_as_many_hosts_as_there_are_nodes() -> None:
    write_files(Path())
    assert "--hosts: ssh needs a file of hosts" in refused(*BACKEND, "--on", "ssh")
    Path("hostfile").write_text("one\n")
    assert "names 1 hosts, and the job wants 2 nodes" in refused(*BACKEND, "--on", "ssh", "--hosts", "hostfile")
    assert "expected one of" in refused(*BACKEND, "--on", "slurm")


def test_much_data_among_the_files_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(Path())
    monkeypatch.setattr(upload_files, "LARGE", 10)
    result = invoke(*BACKEND, "--dry-run")
    assert "MB go to each node: large data is better fetched there" in result.stderr


def test_a_credential_in_the_file_works_with_a_warning_and_its_copy_asks_for_it() -> None:
    write_files(Path(), url="webhdfs://127.0.0.1:1", ugi="reader,planted-1")
    result = invoke(*BACKEND, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "config.fs_ugi, line 6: a credential in a file" in result.stderr
    folder = made_folder(result.stdout)
    assert "planted" not in result.output + "".join(path.read_text() for path in folder.iterdir())
    again = invoke("submit", str(folder), "--dry-run")
    assert again.exit_code == 3
    assert "fs_ugi: is not known: export CLICKLINE_FS_UGI, or write `fs_ugi = VALUE` into " in again.stderr
    secret = Path("mine")
    secret.write_text("fs_ugi = reader,planted-2\n")
    secret.chmod(0o600)
    assert invoke("submit", str(folder), "--dry-run", "--credentials", "mine").exit_code == 0


def test_no_password_is_shown_that_stands_where_none_belongs() -> None:
    write_files(Path(), url="ftp://reader:planted-1@127.0.0.1:1")
    said = refused(*BACKEND)
    assert "fs_name: the address holds a password: leave it out there" in said and "planted" not in said
    by_hand = Path("by_hand")
    copied("mpi_config", by_hand)
    (by_hand / "config.ini").write_text("PADDLE_PADDLEREC_ROLE=WORKER\nMY_PASSWORD=planted-2\n")
    command = "python -m paddlerec.run -m config.yaml"
    (by_hand / "job.sh").write_text(f'paddlecloud job train --start-cmd "{command}" --mpi-nodes 1\n')
    result = invoke("submit", "by_hand", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "planted" not in result.output


def test_hooks_of_ones_own_are_taken_and_a_second_folder_of_a_minute_gets_another_name() -> None:
    write_files(Path())
    Path("before_hook.sh").write_text("echo mine\n")
    first, second = dry(*BACKEND, "--files", "./*.sh"), dry(*BACKEND)
    assert (first / "before_hook.sh").read_text() == "echo mine\n"
    assert "mine" not in (second / "before_hook.sh").read_text()
    assert first != second
    Path("config.ini").touch()
    assert "config.ini has the name of a file that is generated" in refused(*BACKEND, "--files", "./*.ini")


def test_edits_of_config_ini_and_job_sh_change_the_job() -> None:
    write_files(Path())
    folder = dry(*BACKEND, "--on", "local")
    edit(folder / "config.ini", CPU_NUM="3", FLAGS_rpc_deadline="7000")
    edit(folder / "job.sh", nodes="4", job_name="other")
    job = read_submission(folder, read_job_script(folder / "job.sh").options).job
    assert (job.name, job.cluster.pservers, job.cluster.trainers) == ("other", 4, 4)
    assert (job.cluster.threads, job.cluster.deadline) == (3, 7.0)
    assert (job.model.name, job.train.log_format, job.output) == ("dnn", "paddlerec", "increment_dnn")


def test_a_folder_written_for_paddleclouds_client_is_accepted() -> None:
    by_hand = Path("by_hand")
    copied("mpi_config", by_hand)
    (by_hand / "model.py").write_text("import paddle.fluid as fluid\n")
    (by_hand / "before_hook.sh").write_text("wget https://somewhere/PaddleRec.tar.gz\n")
    (by_hand / "config.ini").write_text(
        "PADDLE_PADDLEREC_ROLE=WORKER\nfs_name=webhdfs://a:1\nfs_ugi=u,planted\nMINE=1\n"
    )
    (by_hand / "job.sh").write_text(
        'start_cmd="python -m paddlerec.run -m config.yaml -o hyper_parameters.optimizer.class=adam '
        'hyper_parameters.model=deepfm"\n'
        f"touch {Path.cwd()}/executed\n"
        'paddlecloud job --ak planted train --job-name hand --start-cmd "${start_cmd}" --files ./* --mpi-nodes 2\n'
    )
    result = invoke("submit", "by_hand", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "before_hook.sh: installs Paddle or PaddleRec, which nothing here needs" in result.stderr
    assert "fs_ugi: a credential in config.ini" in result.stderr
    folder = made_folder(result.stdout)
    assert folder.name.startswith("hand_")
    assert "planted" not in result.output + "".join(path.read_text() for path in folder.iterdir())
    assert "MINE=1" in (folder / "config.ini").read_text()
    assert "wget" in (folder / "before_hook.sh").read_text()
    assert not Path("executed").exists()
    assert "no command in it submits a job" in (Path("by_hand/job.sh").write_text("") or refused("submit", "by_hand"))


def test_a_job_of_our_own_is_submitted_too() -> None:
    job = {"name": "own", "data": {"train": "train_data/*"}, "model": {"name": "fm"}, "strategy": "async"}
    Path("job.yaml").write_text(yaml.safe_dump(job))
    Path("hostfile").write_text("one\nother\n")
    folder = dry("submit", "-m", "job.yaml", "--on", "ssh", "--hosts", "hostfile")
    assert {path.name for path in folder.iterdir()} == {
        *("before_hook.sh", "config.ini", "end_hook.sh", "job.sh", "job.yaml", "hostfile")
    }
    assert "clickline train ./job.yaml" in (folder / "job.sh").read_text()
    result = invoke("submit", "-m", "job.yaml", "--on", "mpi", "--nodes", "2", "--dry-run", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["jobId"] is None


def test_a_disk_that_is_full_leaves_no_half_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(Path())
    Path("large.txt").write_bytes(b"x" * 400_000)
    source = Path.cwd()
    with small_disk(tmp_path / "disk", size=200_000) as disk:
        monkeypatch.chdir(disk.path)
        words = ["submit", "-m", str(source / "config.yaml"), "-b", str(source / "backend.yaml")]
        said = refused(*words, "--files", f"{source}/*.txt")
        monkeypatch.chdir(source)
    assert "nothing was submitted: no folder can be made in" in said and "No space left on device" in said


def test_a_node_that_is_no_process_of_a_job_says_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    write_files(Path())
    monkeypatch.setenv("PADDLE_PADDLEREC_ROLE", "WORKER")
    for name in ("TRAINING_ROLE", "PADDLE_TRAINING_ROLE", "CLICKLINE_ROLE"):
        monkeypatch.delenv(name, raising=False)
    result = invoke("run", "-m", "config.yaml", "-b", "backend.yaml")
    assert result.exit_code == 3
    assert "nothing says which of a job's processes this is" in result.stderr
    assert [path.name for path in Path().iterdir() if path.is_dir()] == []


def test_the_help_shows_an_example() -> None:
    assert "clickline submit -m config.yaml -b backend.yaml --hosts hostfile" in invoke("submit", "--help").stdout


def test_a_runner_that_is_one_process_is_refused_where_several_are_started() -> None:
    copied("single_config", Path())
    copied("mpi_backend", Path())
    said = refused(*BACKEND, "--on", "ray")
    assert "strategy: ray trains in several processes, and this is one: expected class: cluster_train" in said
    assert dry(*BACKEND, "--on", "local").is_dir()


def test_ranks_are_as_many_as_the_hosts_have() -> None:
    copied("k8s_collective_config", Path())
    copied("k8s_collective_backend", Path())
    Path("hostfile").write_text("one\nother slots=3\n")
    folder = dry(*BACKEND, "--on", "ssh", "--hosts", "hostfile")
    options = read_job_script(folder / "job.sh").options
    job = read_submission(folder, options, host_overrides=host_overrides(options, beside=folder)).job
    assert (job.resolved_strategy, job.cluster.pservers, job.cluster.trainers) == ("collective", 0, 4)


def test_a_config_of_the_flat_generation_is_submitted_with_servers_on_each_node(tmp_path: Path) -> None:
    write_workspace(tmp_path / "flat", "fm")
    (config,) = (tmp_path / "flat").glob("*/config.yaml")
    copied("mpi_backend", Path())
    folder = dry("submit", "-m", str(config), "-b", "backend.yaml")
    job = read_submission(folder, read_job_script(folder / "job.sh").options).job
    assert (job.cluster.pservers, job.cluster.trainers, job.model.name) == (2, 2, "fm")
    assert job.resolved_strategy != "single"
