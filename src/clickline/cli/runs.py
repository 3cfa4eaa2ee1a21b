"""Which run a verb is about: a run's directory, a job file, or the run that was written to last."""

from __future__ import annotations

from pathlib import Path

from clickline.errors import ClicklineError

SIGNS = ("status.json", "logs", "metrics.jsonl")
"""What a run's directory has, one of them at least."""


SUITE = "suite.json"
"""What a suite's state directory has, in which there may be several runs."""


def find_run(where: str | None) -> Path:
    """The directory of a run. None: the one below `runs` that was written to last."""
    if where is None:
        return _newest(Path("runs"))
    path = Path(where)
    if path.is_dir():
        return _newest(path) if (path / SUITE).exists() else path
    if path.suffix in (".yaml", ".yml", ".json"):
        from clickline.config.reading import read_job

        job = read_job(path).job
        directory = Path(job.output) / job.name
        if not directory.is_dir():
            raise ClicklineError(f"{where} has not been run: there is no {directory}")
        return directory
    raise ClicklineError(f"{where} is neither a run's directory nor a job file")


def _newest(parent: Path) -> Path:
    found = {sign.parent: sign.stat().st_mtime for name in SIGNS for sign in parent.glob(f"*/{name}")}
    if not found:
        raise ClicklineError(f"there is no run in {parent.absolute()}; name its directory or its job file")
    return max(found, key=found.__getitem__)
