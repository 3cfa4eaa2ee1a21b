"""`make chaos`: python -m support.chaos, with tests/ on the path.

CHAOS_MINUTES, CHAOS_SEED, CHAOS_PACE and CHAOS_WITHOUT change it."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NoReturn

from support.chaos import namespaces


def main() -> int:
    arguments = _arguments()
    mounts = namespaces.enter(sys.argv[1:])
    seed = arguments.seed if arguments.seed is not None else int(time.time()) % 1_000_000
    os.environ["CHAOS_SEED"] = str(seed)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupted)

    output = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="clickline-chaos-"))
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch / "tmp")  # before anybody keeps something there
    (scratch / "tmp").mkdir()

    from support.chaos.books import Books
    from support.chaos.report import write
    from support.chaos.run import Settings, run

    terminal = sys.stdout.isatty()
    books = Books(seed, output / "timeline.jsonl")
    _say(f"chaos: seed {seed}, {arguments.minutes:g} minutes, results in {output}")
    settings = Settings(
        seed=seed,
        minutes=arguments.minutes,
        pace=arguments.pace,
        without=dict.fromkeys(filter(None, arguments.without.split(",")), "left out by CHAOS_WITHOUT"),
        mounts=mounts,
    )
    interrupted = False
    try:
        run(settings, scratch, books, output=output, say=_say, show=_Progress(terminal))
    except KeyboardInterrupt:
        interrupted = True
        books.notes.append("interrupted")
        _say("interrupted: what was seen so far")
    except Exception as error:
        books.promise_broken("the suite stays up", repr(error))
        import traceback

        traceback.print_exc()
    result = books.result()
    books.close()
    (output / "chaos.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(scratch, ignore_errors=True)
    write(result, sys.stdout)
    return 130 if interrupted else int(bool(books.broken))


def _arguments() -> argparse.Namespace:
    environment = os.environ
    parser = argparse.ArgumentParser(prog="chaos", description="Random faults on a whole suite, by seed.")
    parser.add_argument("--minutes", type=float, default=float(environment.get("CHAOS_MINUTES") or 30))
    parser.add_argument("--seed", type=int, default=int(seed) if (seed := environment.get("CHAOS_SEED")) else None)
    parser.add_argument(
        "--pace", type=float, default=float(environment.get("CHAOS_PACE") or 1), help="2: twice as many"
    )
    parser.add_argument("--without", default=environment.get("CHAOS_WITHOUT", ""), help="kinds to leave out, by commas")
    parser.add_argument("--output", type=Path, default=Path("build/chaos"), help="for chaos.json and the timeline")
    return parser.parse_args()


class _Progress:
    """One line that is written over, on a terminal; now and then a line elsewhere."""

    def __init__(self, terminal: bool) -> None:
        self._terminal, self._shown = terminal, 0.0

    def __call__(self, text: str) -> None:
        if self._terminal:
            sys.stdout.write(f"\r{text}\x1b[K")
            sys.stdout.flush()
        elif time.monotonic() - self._shown > 20:
            self._shown = time.monotonic()
            _say(text)


def _say(text: str) -> None:
    start = "\r\x1b[K" if sys.stdout.isatty() else ""
    print(f"{start}{text}", flush=True)


def _interrupted(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
