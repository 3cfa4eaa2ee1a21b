"""A rank as a process: rank.py JOB [--resume] [--die RANK STEP HOW], with RANK and the rest in the environment."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from rich.console import Console

from clickline.collective.rank_learner import RankLearner
from clickline.collective.rank_session import train_collective
from clickline.config.loading.reader import read_job
from clickline.errors import ClicklineError
from clickline.progress import PlainLines


def die_at(step: int, how: str) -> None:
    """Have this rank end in the middle of a step: killed, stopped, or by an error of its own."""
    compute = RankLearner._compute

    def dying(self, batch, pulled):
        if self.step + 1 == step:
            if how != "raise":
                os.kill(os.getpid(), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[how])
            raise ClicklineError(f"the moon is full at step {step}")
        return compute(self, batch, pulled)

    RankLearner._compute = dying


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("job", type=Path)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--warm-start", type=Path)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--die", nargs=3, metavar=("RANK", "STEP", "HOW"))
    arguments = parser.parse_args()
    if arguments.die and arguments.die[0] == os.environ["RANK"]:
        die_at(int(arguments.die[1]), arguments.die[2])
    try:
        job = read_job(arguments.job, overrides=arguments.set).job
        watcher = PlainLines(Console(file=sys.stderr))
        result = train_collective(job, resume=arguments.resume, warm_start=arguments.warm_start, watcher=watcher)
    except ClicklineError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    print(json.dumps(result.to_dict()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
