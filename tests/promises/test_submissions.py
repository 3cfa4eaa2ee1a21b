"""Submission folders, edited and submitted by `sh job.sh`, on two hosts that share nothing: over ssh and by mpirun.

Data and output are at a WebHDFS server that asks for an account. It is given by the environment of the one who
submits, and seen nowhere else.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from support.eventually import eventually
from support.hosts import mpi_hosts, ssh_hosts
from support.hosts.mpi_hosts import NETWORK
from support.hosts.ssh_hosts import SshHosts
from support.paddlerec.submissions import ROWS, edit, made_folder, write_files, write_logs

pytestmark = pytest.mark.heavy
USER, PASSWORD = "reader", "planted-pass-7c1f"
SECRETS = (PASSWORD.encode(), b"planted-ak", b"planted-sk")


@dataclass
class Place:
    """Both hosts, the client, and a directory of the client's that no host sees."""

    hosts: SshHosts
    url: str
    store: Path
    seen: set[str] = field(default_factory=set)
    """Roles of processes that were looked at."""

    @property
    def client(self) -> Path:
        return self.hosts.private / "client"

    @property
    def environment(self) -> dict[str, str]:
        given = {"CLICKLINE_FS_UGI": f"{USER},{PASSWORD}", "CLICKLINE_AK": "planted-ak", "CLICKLINE_SK": "planted-sk"}
        return {**given, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def start(self, *words: str | Path, directory: Path) -> subprocess.Popen[str]:
        return self.hosts.start_at_desk([*map(str, words)], directory=directory, env=self.environment)

    def run(self, *words: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
        process = self.start(*words, directory=directory)
        out, err = process.communicate(timeout=240)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def submitted(self, *options: str, name: str) -> Path:
        """A folder, made by a dry run of the documented files, for the two hosts."""
        place = self.client / name / "dnn"
        write_files(place, url=self.url, ugi="${env:CLICKLINE_FS_UGI}", name=name)
        done = self.run(
            *(sys.executable, "-m", "clickline", "submit", "-m", "config.yaml", "-b", "backend.yaml"),
            *("--set", f"cluster.root={self.hosts.private}/jobs", "--dry-run", *options),
            directory=place,
        )
        assert done.returncode == 0, done.stderr
        return made_folder(done.stdout)

    def on_hosts(self, command: str) -> list[str]:
        return [self.hosts.on(name, command).decode() for name in ("one", "other")]

    def look_at_processes(self) -> None:
        """No process but the one that was given it has a credential, in its arguments or its environment."""
        for name in ("one", "other", "client"):
            for pid in self.hosts.pids(name):
                with suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes()
                    environment = Path(f"/proc/{pid}/environ").read_bytes()
                    self.seen.update(word.decode() for word in words.split(b"\0")[3:4])
                    assert not any(secret in words for secret in SECRETS), words
                    submits = b"\0submit\0" in words or b"job.sh" in words
                    assert submits or not any(secret in environment for secret in SECRETS), words

    def files_with_secrets(self) -> list[str]:
        """On both hosts and on the client: in all that was made, records and logs included."""
        patterns = " ".join(f"-e {secret.decode()}" for secret in SECRETS)
        found = "".join(self.on_hosts(f"grep -rl {patterns} {self.hosts.private} || true"))
        for directory in (self.client, self.hosts.directory / "jobs", self.store):
            command = ["grep", "-rl", *patterns.split(), str(directory)]
            found += subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return found.split()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    if why := ssh_hosts.unavailable():
        pytest.skip(why)
    directory = tmp_path_factory.mktemp("submissions")
    store = directory / "store"
    write_logs(store)
    program = ["-m", "support.doubles.webhdfs_server", str(store)]
    with (
        ssh_hosts.ssh_hosts(directory / "ssh", megabytes=192) as hosts,
        subprocess.Popen(
            ["ip", "netns", "exec", hosts.client.namespace, sys.executable, *program, hosts.client.address],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server,
    ):
        try:
            assert server.stdin is not None and server.stdout is not None
            server.stdin.write(f"{USER}:{PASSWORD}\n")
            server.stdin.close()
            port = int(server.stdout.readline())
            made = Place(hosts, f"webhdfs://{hosts.client.address}:{port}", store)
            made.client.mkdir()
            entries = [
                {"host": name, "address": host.address, "python": sys.executable}
                for name, host in (("one", hosts.network.one), ("other", hosts.network.other))
            ]
            (made.client / "hosts.yaml").write_text(yaml.safe_dump(entries))
            (made.client / "hostfile").write_text("one slots=1\nother slots=1\n")
            yield made
        finally:
            server.kill()


GATED = """\
echo "$GREETING from $(hostname)" > greeting
touch {private}/{name}-began
while [ ! -e {private}/{name}-go ]; do sleep 0.05; done
"""


def watched(place: Place, folder: Path, name: str) -> dict[str, object]:
    """`sh job.sh --wait` of a folder whose hooks wait at a gate, with a look at all processes on the way."""
    for hook in ("before_hook", "end_hook"):
        (folder / f"{hook}.sh").write_text(GATED.format(private=place.hosts.private, name=f"{name}-{hook}"))
    process = place.start("sh", "job.sh", "--wait", "--json", directory=folder)
    for hook in ("before_hook", "end_hook"):
        gate = f"{place.hosts.private}/{name}-{hook}"
        began = f"test -e {gate}-began && echo yes || true"
        eventually(
            lambda began=began: place.on_hosts(began) == ["yes\n"] * 2, process=process, doing=place.look_at_processes
        )
        place.look_at_processes()
        place.on_hosts(f"touch {gate}-go")
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return json.loads(out)


def check_trained(place: Place, submitted: dict[str, object], *, name: str, directory: str) -> None:
    """One epoch over all rows: each host has trained the file that it has fetched, and the output is at the server."""
    result = submitted["result"]
    assert isinstance(result, dict)
    assert result["rows"] == 2 * ROWS
    assert place.on_hosts(f"ls {directory}/train_data") == ["part-0\n", "part-1\n"]
    assert place.on_hosts(f"cat {directory}/greeting") == ["good day from one\n", "good day from other\n"]
    assert place.hosts.on("one", f"ls {directory}/increment_dnn").decode() == "0\n"
    copied = json.loads((place.store / "models" / name / "result.json").read_text())
    assert copied["rows"] == 2 * ROWS
    assert {"trainer", "pserver"} <= place.seen
    assert place.files_with_secrets() == []


def test_an_edited_folder_is_submitted_over_ssh(place: Place) -> None:
    folder = place.submitted("--on", "ssh", "--hosts", "../../hosts.yaml", name="over_ssh")
    assert place.on_hosts(f"ls {place.hosts.private}") == ["", ""], "a dry run starts nothing"
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("epochs: 2", "epochs: 1"))
    edit(folder / "job.sh", job_name='"edited"')
    edit(folder / "config.ini", GREETING="'good day'")
    place.seen.clear()
    submitted = watched(place, folder, "ssh")
    job = submitted["jobId"]
    check_trained(place, submitted, name="edited", directory=f"{place.hosts.private}/jobs/{job}")

    # By its record, where it was submitted.
    status = json.loads(place.hosts.run("status", str(job), "--json").stdout)
    assert (status["job"], status["phase"]) == ("edited", "finished")
    log = place.hosts.run("logs", str(job), "-n", "1000").stdout
    assert "[Train] epoch: 0, batch: " in log


def test_a_hook_that_fails_on_one_host_fails_the_job_before_anything_is_trained(place: Place) -> None:
    folder = place.submitted("--on", "ssh", "--hosts", "../../hosts.yaml", name="with_hook")
    script = 'echo "no such library"; test "$(hostname)" != other || exit 3\n'
    (folder / "before_hook.sh").write_text(script)
    done = place.run("sh", "job.sh", "--wait", directory=folder)
    assert done.returncode == 7
    assert "other: before_hook.sh failed with exit code 3: no such library; its log is " in done.stderr
    last = json.loads(place.hosts.run("jobs", "--json").stdout)[-1]
    assert (last["name"], last["phase"]) == ("with_hook", "failed")
    assert "before_hook.sh failed with exit code 3" in last["reason"]
    assert place.on_hosts(f"ls -d {place.hosts.private}/jobs/increment_dnn/with_hook 2> /dev/null || true") == ["", ""]
    assert [place.hosts.processes(name) for name in ("one", "other")] == [[], []]


def test_a_hook_that_fails_after_training_fails_the_job(place: Place) -> None:
    folder = place.submitted("--on", "ssh", "--hosts", "../../hosts.yaml", "--set", "train.epochs=1", name="at_last")
    (folder / "end_hook.sh").write_text('test "$(hostname)" != other || { echo "no room"; exit 4; }\n')
    done = place.run("sh", "job.sh", "--wait", directory=folder)
    assert done.returncode == 7
    assert "other: end_hook.sh failed with exit code 4: no room; its log is " in done.stderr
    last = json.loads(place.hosts.run("jobs", "--json").stdout)[-1]
    assert (last["name"], last["phase"]) == ("at_last", "failed")
    # What was trained is there all the same.
    place.hosts.on("one", f"test -e {place.hosts.private}/jobs/increment_dnn/at_last/result.json")


def test_a_full_disk_is_told_by_host_and_nothing_is_submitted(place: Place) -> None:
    folder = place.submitted("--on", "ssh", "--hosts", "../../hosts.yaml", name="full")
    filler = f"{place.hosts.private}/filler"
    before = place.on_hosts(f"ls {place.hosts.private}/jobs 2> /dev/null || true")
    place.hosts.on("other", f"head -c 150000000 /dev/zero > {filler}")
    try:
        done = place.run("sh", "job.sh", directory=folder)
    finally:
        place.hosts.on("other", f"rm {filler}")
    assert done.returncode == 7
    assert "nothing was started" in done.stderr and "MB are needed" in done.stderr
    assert "ready for training" not in done.stdout
    assert place.on_hosts(f"ls {place.hosts.private}/jobs 2> /dev/null || true") == before
    assert all(job["name"] != "full" for job in json.loads(place.hosts.run("jobs", "--json").stdout))


def test_an_edited_folder_is_submitted_by_mpirun(place: Place) -> None:
    if why := mpi_hosts.unavailable():
        pytest.skip(why)
    folder = place.submitted("--hosts", "../../hostfile", name="by_mpi")
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("epochs: 2", "epochs: 1"))
    edit(folder / "config.ini", GREETING="'good day'")
    network = {
        "plm_rsh_agent": place.hosts.directory / "ssh",
        "plm_rsh_no_tree_spawn": 1,
        "oob_tcp_if_include": NETWORK,
        "btl_tcp_if_include": NETWORK,
        "btl": "tcp,self",
    }
    options = " ".join(f"--mca {name} {value}" for name, value in network.items())
    state = f"-x CLICKLINE_STATE={place.hosts.private}/state -x OMP_NUM_THREADS=1"
    edit(folder / "job.sh", mpirun=f'"mpirun --map-by ppr:1:node --bind-to none {options} {state}"')
    place.seen.clear()
    submitted = watched(place, folder, "mpi")
    directories = f"{place.hosts.private}/jobs/{submitted['jobId']}/rank-*"
    check_trained(place, submitted, name="by_mpi", directory=directories)
    last = json.loads(place.hosts.run("jobs", "--json").stdout)[-1]
    assert (last["name"], last["launcher"], last["phase"]) == ("by_mpi", "mpi", "finished")
    assert "[Train] epoch: 0, batch: " in place.hosts.run("logs", str(submitted["jobId"]), "-n", "1000").stdout
