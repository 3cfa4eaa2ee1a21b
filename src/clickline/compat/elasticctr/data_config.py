"""ElasticCTR's data.config, which its elastic-control.sh reads as a shell script, as values of a deployed suite.

    export HDFS_ADDRESS="hdfs://192.168.48.87:9000"
    export HDFS_UGI="root,i"
    export START_DATE_HR="20200401/00"
    export END_DATE_HR="20200401/03"
    export DATASET_PATH="/train_data"
    export SPARSE_DIM="1000001"

Nothing in it is executed: a line that is not KEY=VALUE is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clickline.config.loading.reader import refusal
from clickline.config.loading.suggestions import suggestion
from clickline.errors import JobProblem

KEYS = ("HDFS_ADDRESS", "HDFS_UGI", "START_DATE_HR", "END_DATE_HR", "DATASET_PATH", "SPARSE_DIM")
HOUR_PATTERN = r"^[0-9]{8}/[0-9]{2}$"
# No $, ` or \\ outside of single quotes: what a shell would replace is refused instead of taken literally.
_LINE = re.compile(r"^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(?:\"([^\"$`\\]*)\"|'([^']*)'|([^\s\"'$`\\;&|<>()]*))$")
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class MigratedValues:
    """Values of a suite, and what they could not carry."""

    values: dict[str, Any]
    notices: list[str] = field(default_factory=list)


def is_data_config(path: str | Path) -> bool:
    """Whether a file assigns a variable of data.config."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(_LARGEST).decode(errors="replace")
    except OSError:
        return False
    return re.search(rf"^(export\s+)?({'|'.join(KEYS)})=", text, flags=re.MULTILINE) is not None


def read_data_config(path: str | Path) -> MigratedValues:
    """The values that say the same. Raises JobError with everything that is wrong, by line."""
    given, problems = _assignments(Path(path))
    for key in ("START_DATE_HR", "END_DATE_HR"):
        line, value = given.get(key, (None, ""))
        if value and not re.fullmatch(HOUR_PATTERN, value):
            problems.append(JobProblem(key, f"{value!r} is not an hour, such as 20200401/00", line))
    for key in ("DATASET_PATH", "START_DATE_HR", "END_DATE_HR"):
        if key not in given:
            problems.append(JobProblem(key, "not there; without it there is no data to train", None))
    if problems:
        raise refusal(str(path), problems)
    texts = {key: value for key, (_, value) in given.items()}
    root = f"{texts.get('HDFS_ADDRESS', '').rstrip('/')}/{texts['DATASET_PATH'].strip('/')}"
    values: dict[str, Any] = {
        "data": {
            "source": "paths",
            # Everything but its donefile, which is no data.
            "train": [f"{root}/%Y%m%d/%H/part-*"],
            "done": f"{root}/%Y%m%d/%H/donefile",
            "start": texts["START_DATE_HR"],
            "end": texts["END_DATE_HR"],
        }
    }
    return MigratedValues(values, _notices(texts))


def _assignments(path: Path) -> tuple[dict[str, tuple[int | None, str]], list[JobProblem]]:
    given: dict[str, tuple[int | None, str]] = {}
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        found = _LINE.match(text)
        if found is None:
            problems.append(JobProblem("", "not KEY=VALUE; expressions of the shell are not evaluated", number))
            continue
        key = found[1]
        if key not in KEYS:
            problems.append(JobProblem(key, f"not a key of data.config; {suggestion(key, KEYS, kind='keys')}", number))
            continue
        given[key] = (number, found[2] or found[3] or found[4] or "")
    return given, problems


def _notices(texts: dict[str, str]) -> list[str]:
    notices = [
        "data.train: files are expected to be called part-*; change the pattern where they are not",
        "slot.conf: name the slots in a job file (features), and that file as `job` in the values",
    ]
    if texts.get("HDFS_UGI"):
        notices.append(
            "HDFS_UGI: a user and a password, not carried: put it into a Secret and name that in training.secrets"
        )
    if texts.get("SPARSE_DIM"):
        notices.append(
            f"SPARSE_DIM: {texts['SPARSE_DIM']}: keys have 64 bits here and tables grow as needed; nothing to set"
        )
    return notices
