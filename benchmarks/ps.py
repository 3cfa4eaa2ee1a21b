"""Parameter server benchmarks, beside peers in the same run. `make bench-ps` runs all of it.

ways    A Clickline async, half_async, geo, sync with 2 servers and 2 trainers; Q PaddlePaddle's own async parameter
        server; P plain PyTorch and D the dense network alone, both with two threads in one process
server  one server on one core, pulled from and pushed to over loopback, beside the same table in-process
growth  CPU seconds per million rows with 1+1, 2+2 and 4+4 processes, and bytes on the wire per row
memory  a server's memory over a long async run whose rows stay the same

Results: benchmarks/results/ps.json and ps.md (ps-SECTION… if not all sections run).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import numpy as np
import torch

import server
from clusters import clustered, train
from datasets import Rows, synthetic
from peers import PADDLE, run_peer, scratch
from rounds import Report, alternate, console
from sections import guarded, parser_for, run_sections
from training import SLOTS, THREADS, job_for, limit, memory_batches, plain_pytorch


def main() -> None:
    torch.set_num_threads(THREADS)
    parser = parser_for(__doc__, example="python benchmarks/ps.py --only ways --rounds 3")
    parser.add_argument("--rows", type=int, default=200_000, help="synthetic rows to train on (default %(default)s)")
    run_sections(
        "ps",
        {
            "ways": lambda report, given: ways(report, synthetic(given.rows), rounds=given.rounds),
            "server": lambda report, given: server.run(report, rounds=given.rounds),
            "growth": lambda report, given: growth(report, synthetic(given.rows), rounds=given.rounds),
            "memory": lambda report, given: memory(report, synthetic(given.rows)),
        },
        parser,
    )


def ways(report: Report, rows: Rows, *, rounds: int) -> None:
    """Second epochs of ours: rows exist by then, as they do for the others after their warm-up."""
    job = job_for(rows.train)
    batches = memory_batches(job)
    plain, _ = plain_pytorch(batches)
    with scratch() as directory:
        npz = directory / "rows.npz"
        keys = np.concatenate([batch.keys for batch in batches]).reshape(-1, SLOTS).view(np.int64)
        dense, labels = (np.concatenate([getattr(batch, n) for batch in batches]) for n in ("dense", "labels"))
        np.savez(npz, ids=keys, dense=dense, labels=labels)

        def ours(strategy: str, batch: int) -> float:
            return train(
                clustered(rows.train, strategy=strategy, batch=batch, pservers=2, trainers=2, epochs=2)
            ).rows_per_second

        def paddle(batch: int) -> float:
            return float(run_peer("paddle_ps", npz, batch, environment=PADDLE)["rows_per_second"])

        contenders: dict[str, Callable[[], float]] = {
            "D": limit(batches),
            "P": plain,
            "A async, batch 1000": partial(ours, "async", 1000),
            "Q Paddle async, batch 1000": partial(paddle, 1000),
            "A async, batch 4000": partial(ours, "async", 4000),
            "Q Paddle async, batch 4000": partial(paddle, 4000),
            "half_async, batch 1000": partial(ours, "half_async", 1000),
            "geo, batch 1000": partial(ours, "geo", 1000),
            "sync, batch 1000": partial(ours, "sync", 1000),
        }
        report.figures |= alternate(contenders, rounds=rounds, unit="rows/s")
    figure = report.median
    for batch in (1000, 4000):
        ours_, peer = figure(f"A async, batch {batch}"), figure(f"Q Paddle async, batch {batch}")
        report.ratio(f"A/Q, batch {batch}", ours_ / peer, wanted=2.5)
        report.ratio(f"A/D, batch {batch}", ours_ / figure("D"), wanted=0.6)
    base = figure("A async, batch 1000")
    report.ratio("half_async/async", figure("half_async, batch 1000") / base, wanted=1.0)
    report.ratio("geo/async", figure("geo, batch 1000") / base, wanted=1.0)
    report.ratio("sync/async", figure("sync, batch 1000") / base, wanted=0.8)


def growth(report: Report, rows: Rows, *, rounds: int) -> None:
    """By difference of a run with three epochs and one with one, so that starting up does not count."""
    costs: dict[int, list[float]] = {1: [], 2: [], 4: []}
    wires: dict[int, float] = {}
    for number in range(rounds):
        for size, seen in costs.items():
            made = partial(clustered, rows.train, strategy="async", batch=1000, pservers=size, trainers=size)
            short, long = train(made(epochs=1)), train(made(epochs=3))
            seen.append((long.cpu_seconds - short.cpu_seconds) / (long.rows - short.rows) * 1e6)
            servers = [member for member in long.status["members"] if member["role"] == "pserver"]
            wires[size] = sum(s["counters"]["bytes_in"] + s["counters"]["bytes_out"] for s in servers) / long.rows
            console.print(
                f"  round {number + 1}/{rounds}  {size}+{size}: {seen[-1]:.1f} CPU s per million rows, "
                f"{wires[size]:,.0f} bytes a row",
                highlight=False,
            )
    for size, seen in costs.items():
        report.figures[f"CPU seconds per million rows, {size}+{size}"] = {
            "median": round(median(seen), 2),
            "rounds": [round(cost, 2) for cost in seen],
            "unit": "s",
        }
        report.figure(f"bytes on the wire per row, {size}+{size}", round(wires[size], 1), unit="bytes")
    middle = [median(seen) for seen in costs.values()]
    report.ratio("growth: least/most CPU per row", min(middle) / max(middle), wanted=0.8)


def memory(report: Report, rows: Rows) -> None:
    """Peak memory of a server after few and after many epochs over the same rows."""
    peaks = []
    for epochs in (2, 8):
        outcome = train(clustered(rows.train, strategy="async", batch=1000, pservers=1, trainers=1, epochs=epochs))
        peak = max(m["memory_mib"] for m in outcome.status["members"] if m["role"] == "pserver")
        peaks.append(peak)
        report.figure(f"server, peak memory after {epochs} epochs", round(peak, 1), unit="MiB")
    report.figure("server, memory slope", round((peaks[1] - peaks[0]) / 6, 2), unit="MiB per epoch")
    report.ratio("server memory, 2/8 epochs", peaks[0] / peaks[1], wanted=0.95)


if __name__ == "__main__":
    guarded(main)
