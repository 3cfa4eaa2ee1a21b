"""PaddlePaddle 2.6.2's own asynchronous parameter server: two pservers and two trainers on loopback.

    paddle_ps.py ROWS.npz BATCH [WARM_UP [TIMEOUT]]
                                       prints {"rows", "seconds", "rows_per_second", "loss_first", "loss_last"}

ROWS.npz: ids [rows, 26] (64 bits, hashed), dense [rows, 13], labels [rows, 1]. Each trainer takes half of the rows and
has them in memory before the clock starts. WARM_UP is the part of them learned from beforehand (0.1); the measured pass
is over all. Seconds: from the common start to the end of the slower trainer, its last push included. The losses are
means over the first ten batches of the warm-up and the last ten of the pass. After TIMEOUT seconds (900) all is
stopped, and so it is on any error; the first failed process and the end of its log are shown then.

Model: 26 slots × 10 dimensions of one sparse_embedding + 13 dense → 400 → 400 → 400 → 1, Adam, one thread a trainer.

What was tried by hand, on two cores that were busy with other work too (so these rates only rank roughly):
- Feeding. Its own InMemoryDataset with train_from_dataset runs here. On first passes at batch 1000 it made 5,100 to
  12,300 rows/s, feed dicts of ready numpy arrays 5,500 to 11,900, and taking turns 5,100 and 8,800 against 5,500 and
  9,100: no difference that could be told from the noise. Learning decides, not speed: by dicts,
  Executor.run never pulls the network's weights again, and they are after a pass what they were before (moved by 0.0);
  only train_from_dataset has a thread that pulls them. It pulls them late: losses go up and down on the way.
  All ids of a batch as one input instead of 26: 9,000 by dicts, 7,100 by dataset. Two threads a trainer: 9,400 at batch
  1000 (one thread just before: 12,300), no clear difference at 4000.
- sync (a_sync = False): both trainers die of SIGSEGV in the first step, in SendBarrierOp::RunImpl, by dicts and by
  dataset alike. Presumably for want of a communicator: init_worker makes one for geo (and heter) only.
- geo (k_steps = 100) refuses sparse_embedding, with Adam and with SGD: init_worker of trainer 0 says "ValueError:
  (InvalidArgument) The Variable type must be N3phi11DenseTensorE, but the type it holds is N3phi12SelectedRowsE", and
  trainer 1 waits until it is killed. Geo does run with static.nn.embedding(is_sparse=True), a table of fixed size that
  every trainer holds whole (tried: ids modulo 100,000, SGD): another model than this one, whose ids are 64-bit hashes.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

SLOTS, DIM, DENSE, HIDDEN, RATE = 26, 10, 13, (400, 400, 400), 0.001
SERVERS, TRAINERS = 2, 2
AVERAGED = 10
"""Batches that a reported loss is the mean of: one batch alone says little."""
SHOWN = 1500
LOSS = re.compile(r"loss\[1\]:\[([^\]]+)\]")


def network() -> tuple[list[Any], Any]:
    """Inputs in the order of the dataset's columns, and the loss."""
    import paddle
    from paddle import static

    ids = [static.data(f"C{slot}", [None, 1], "int64") for slot in range(SLOTS)]
    dense = static.data("dense", [None, DENSE], "float32")
    label = static.data("label", [None, 1], "float32")
    table = paddle.ParamAttr(name="table", initializer=paddle.nn.initializer.Uniform(-0.01, 0.01))
    vectors = [static.nn.sparse_embedding(column, [DIM, DIM], param_attr=table) for column in ids]  # any first size
    x = paddle.concat([*(paddle.reshape(vector, [-1, DIM]) for vector in vectors), dense], 1)
    for width in HIDDEN:
        x = static.nn.fc(x, width, activation="relu")
    cross_entropy = paddle.nn.functional.binary_cross_entropy_with_logits
    return [*ids, dense, label], cross_entropy(static.nn.fc(x, 1), label)


def take_part(directory: Path, rows: str, batch: int, warm_up: float) -> None:
    """A pserver or a trainer, whichever the environment says."""
    import paddle
    from paddle.distributed import fleet

    paddle.enable_static()
    fleet.init(fleet.PaddleCloudRoleMaker(is_collective=False))
    inputs, loss = network()
    strategy = fleet.DistributedStrategy()
    strategy.a_sync = True
    adam = paddle.optimizer.Adam(RATE, lazy_mode=True)
    fleet.distributed_optimizer(adam, strategy).minimize(loss)
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        return
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(paddle.static.default_startup_program())
    fleet.init_worker()
    rank = fleet.worker_index()
    columns = _half(rows, rank)
    count = len(columns[0])
    warm = min(count, max(batch, int(count * warm_up)))
    first = _dataset(directory / f"{rank}.warm-up", [column[:warm] for column in columns], inputs, batch)
    whole = _dataset(directory / f"{rank}.whole", columns, inputs, batch)

    def learn(dataset: Any) -> None:
        program = paddle.static.default_main_program()
        executor.train_from_dataset(program, dataset, thread=1, fetch_list=[loss], fetch_info=["loss"], print_period=1)

    learn(first)
    fleet.util.barrier()
    started = time.monotonic()  # one clock for all processes of a machine
    learn(whole)
    facts = {"rows": count, "warm_up": warm, "started": started, "ended": time.monotonic()}
    sys.stdout.flush()
    aside = directory / f"{rank}.aside"
    aside.write_text(json.dumps(facts), encoding="utf-8")
    aside.replace(directory / f"{rank}.json")
    fleet.util.barrier()
    os._exit(0)  # nothing is kept, so its orderly end would only take time


def _half(rows: str, rank: int) -> list[np.ndarray]:
    with np.load(rows) as arrays:
        ids, dense, labels = (arrays[name] for name in ("ids", "dense", "labels"))
    if ids.shape[1:] != (SLOTS,) or dense.shape[1:] != (DENSE,) or not len(ids) == len(dense) == len(labels):
        raise SystemExit(f"{rows}: ids {ids.shape}, dense {dense.shape}, labels {labels.shape} do not fit together")
    mine = slice(len(ids) * rank // TRAINERS, len(ids) * (rank + 1) // TRAINERS)
    return [ids[mine].view(np.uint64), dense[mine], labels[mine].reshape(-1)]


def _dataset(path: Path, columns: list[np.ndarray], inputs: list[Any], batch: int) -> Any:
    """The rows in Paddle's own memory. It only reads text: a count and so many values for every input."""
    import paddle

    line = "1 %d " * SLOTS + f"{DENSE} " + "%.7g " * DENSE + "1 %g\n"
    lists = zip(*(column.tolist() for column in columns), strict=True)
    with path.open("w", encoding="ascii") as file:
        file.writelines(line % (*ids, *dense, label) for ids, dense, label in lists)
    dataset = paddle.distributed.InMemoryDataset()
    dataset.init(batch_size=batch, thread_num=1, pipe_command="cat", use_var=inputs)
    dataset.set_filelist([str(path)])
    dataset.load_into_memory()
    path.unlink()
    return dataset


def environments(directory: Path) -> dict[str, dict[str, str]]:
    """What each process is told, by the names that Paddle's own launcher uses."""
    ports = _free_ports(SERVERS + TRAINERS)
    places = [f"127.0.0.1:{port}" for port in ports]
    common = {
        **{name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")},
        "POD_IP": "127.0.0.1",
        "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(places[:SERVERS]),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(places[SERVERS:]),
        "PADDLE_TRAINERS_NUM": str(TRAINERS),
        "PADDLE_WITH_GLOO": "1",  # without it barriers do nothing, and trainer 1 may pull before trainer 0 has pushed
        "PADDLE_GLOO_RENDEZVOUS": "2",
        "PADDLE_GLOO_FS_PATH": str(directory / "gloo"),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    told = {}
    for number, port in enumerate(ports):
        rank = number if number < SERVERS else number - SERVERS
        role = "PSERVER" if number < SERVERS else "TRAINER"
        told[f"{role.lower()}.{rank}"] = {
            **common,
            "TRAINING_ROLE": role,
            "PADDLE_PORT": str(port),
            "PADDLE_TRAINER_ID": str(rank),
        }
    return told


def _free_ports(count: int) -> list[int]:
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [holder.getsockname()[1] for holder in holders]
    for holder in holders:
        holder.close()
    return ports


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def run(rows: str, batch: int, warm_up: float, timeout: float) -> dict[str, float]:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped by SIGTERM"))
    deadline = time.monotonic() + timeout
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with TemporaryDirectory(prefix="paddle-ps-") as name:
        directory = Path(name)
        command = [sys.executable, __file__, rows, str(batch), str(warm_up), str(timeout), name]
        try:
            for role, variables in environments(directory).items():
                with (directory / f"{role}.log").open("wb") as log:
                    processes[role] = subprocess.Popen(
                        command,
                        env=variables,
                        cwd=directory,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        preexec_fn=_die_with_parent,  # noqa: PLW1509 - there are no threads here
                    )
            results = [directory / f"{rank}.json" for rank in range(TRAINERS)]
            while not all(result.exists() for result in results):
                _check(processes, directory, late=time.monotonic() > deadline, timeout=timeout)
                time.sleep(0.05)
            return _facts(directory, results, batch)
        finally:
            _stop(processes)


def _check(processes: dict[str, subprocess.Popen[bytes]], directory: Path, *, late: bool, timeout: float) -> None:
    for role, process in processes.items():
        code = process.poll()
        if code is not None and not (code == 0 and role.startswith("trainer")):
            raise SystemExit(f"{role} ended with {code}:\n{_tail(directory, role)}")
    if late:
        logs = "\n".join(f"{role}: {_tail(directory, role)}" for role in processes)
        raise SystemExit(f"not done after {timeout:g} s:\n{logs}")


def _tail(directory: Path, role: str) -> str:
    return (directory / f"{role}.log").read_text(encoding="utf-8", errors="replace")[-SHOWN // TRAINERS :]


def _facts(directory: Path, results: list[Path], batch: int) -> dict[str, float]:
    facts = [json.loads(result.read_text(encoding="utf-8")) for result in results]
    logs = [(directory / f"trainer.{rank}.log").read_text(errors="replace") for rank in range(TRAINERS)]
    losses = [[float(loss) for loss in LOSS.findall(log)] for log in logs]
    wanted = [sum(-(-rows // batch) for rows in (fact["warm_up"], fact["rows"])) for fact in facts]
    if [len(column) for column in losses] != wanted:
        raise SystemExit(f"losses of {[len(column) for column in losses]} batches instead of {wanted}")
    rows = sum(fact["rows"] for fact in facts)
    seconds = max(fact["ended"] for fact in facts) - min(fact["started"] for fact in facts)
    return {
        "rows": rows,
        "seconds": seconds,
        "rows_per_second": rows / seconds,
        "loss_first": float(np.mean([loss for column in losses for loss in column[:AVERAGED]])),
        "loss_last": float(np.mean([loss for column in losses for loss in column[-AVERAGED:]])),
    }


def _stop(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    for process in processes.values():
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # a session of its own: what it started goes too
    for process in processes.values():
        process.wait()


def main(rows: str, batch: str, warm_up: str = "0.1", timeout: str = "900", directory: str = "") -> None:
    if directory:
        take_part(Path(directory), rows, int(batch), float(warm_up))
    else:
        path = str(Path(rows).resolve(strict=True))
        print(json.dumps(run(path, int(batch), float(warm_up), float(timeout))))


if __name__ == "__main__":
    main(*sys.argv[1:])
