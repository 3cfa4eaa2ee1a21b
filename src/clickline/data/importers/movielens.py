"""MovieLens 1M: ratings become clicks (4 and 5 stars), each with what its user had liked before.

Each row keeps its rating, which a second job predicts, and has a second label: whether the rating was five stars.

A history holds movies that were liked at an earlier second than the row's own, never at the same one: a user rates many
movies within a second, and those are not known when the first of them is asked about.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from clickline.data.importers.downloads import Progress, located
from clickline.data.importers.import_output import Imported, writing
from clickline.data.importers.malformed import Malformed
from clickline.data.importers.movielens_files import EXPECTED, NAMES, contents, fields_of

LIKED, MOST_STARS = 4, 5
HISTORY = 20
SECOND_LABEL = "five_stars"
_SLOTS = ("user", "gender", "age", "occupation", "zip", "movie", "year", "genres", "seen")
_COLUMNS = (*_SLOTS, "label", SECOND_LABEL, "rating", "time")
_YEAR = re.compile(r"\((\d{4})\)\s*$")
_TIME = re.compile(r"[0-9]{1,12}")
_STARS = frozenset("12345")
_FLUSHED = 10_000
_JOB: Mapping[str, Any] = {
    "name": "movielens",
    "data": {"format": "csv"},
    "features": {
        "labels": ["label"],
        "slots": [
            *_SLOTS[:7],
            {"name": "genres", "separator": "|", "pooling": "mean"},
            {"name": "seen", "separator": "|", "pooling": "sequence", "keys_of": "movie"},
        ],
        "time": "time",
        "group": "user",
    },
    "model": {"name": "din", "params": {"sequence_length": HISTORY}},
}
_TWO_LABELS_JOB = {
    **_JOB,
    "features": {**_JOB["features"], "labels": ["label", SECOND_LABEL]},
    "model": {"name": "mmoe"},
}

RATING_JOB = "rating.yaml"
"""The job that predicts the stars themselves."""
_RATING_JOB: Mapping[str, Any] = {
    **_JOB,
    "name": "movielens-rating",
    "features": {**{key: value for key, value in _JOB["features"].items() if key != "group"}, "labels": ["rating"]},
    "train": {"loss": "squared"},
}


def import_movielens(
    source: str,
    out: Path,
    *,
    test_share: float = 0.2,
    two_labels: bool = False,
    force: bool = False,
    progress: Progress = lambda share: None,
) -> Imported:
    """Write train.csv, test.csv, job.yaml and rating.yaml below `out`.

    The first job trains DIN on clicks, or MMoE with `two_labels`; the second one predicts the rating.
    """
    files = located(source, names=NAMES, expected=EXPECTED)
    header = ",".join(_COLUMNS).encode() + b"\n"
    with writing(
        out,
        source=files,
        suffix="csv",
        header=header,
        test_share=test_share,
        force=force,
        other_jobs=(RATING_JOB,),
    ) as written:
        ratings, users, movies = contents(files, source=source)
        malformed = Malformed(path=f"{source} (ratings.dat)", expected=EXPECTED)
        events = _events(ratings, _users(users), _movies(movies), malformed)
        malformed.check(len(events), end=True)
        rows: list[str] = []
        for place, row in enumerate(_rows(events), 1):
            rows.append(row)
            if len(rows) == _FLUSHED or place == len(events):
                written.add("".join(rows).encode(), len(rows))
                rows.clear()
                progress(place / len(events))
        job = _TWO_LABELS_JOB if two_labels else _JOB
        others = {RATING_JOB: _RATING_JOB}
        return written.publish(job, other_jobs=others, bad=malformed.count, first_bad=malformed.first)


Event = tuple[int, str, str, str, int]
"""Time, the user's columns, the movie, the movie's columns, the stars it was given."""


def _events(text: str, users: dict[str, str], movies: dict[str, str], malformed: Malformed) -> list[Event]:
    """Ratings in the order of time; those of one second as they are in the file."""
    events = []
    for number, line in enumerate(text.split("\n"), 1):
        fields = line.rstrip("\r").split("::")
        if fields == [""]:
            continue
        if len(fields) != 4 or fields[2] not in _STARS or not _TIME.fullmatch(fields[3]):
            malformed.add(number, f"expected user::movie::stars::time, got {line[:60]!r}")
        elif fields[0] not in users:
            malformed.add(number, f"the user {fields[0][:20]!r} is not in users.dat")
        elif fields[1] not in movies:
            malformed.add(number, f"the movie {fields[1][:20]!r} is not in movies.dat")
        else:
            user, movie, stars, time = fields
            events.append((int(time), users[user], movie, movies[movie], int(stars)))
    # By time only, and stable: with whole events as keys, the user's columns would decide within a second.
    events.sort(key=lambda event: event[0])
    return events


def _rows(events: list[Event]) -> Iterator[str]:
    histories: dict[str, _History] = {}
    for time, user, movie, movie_columns, stars in events:
        history = histories.get(user)
        if history is None:
            history = histories[user] = _History()
        labels = f"{int(stars >= LIKED)},{int(stars == MOST_STARS)},{stars}"
        yield f"{user},{movie_columns},{history.before(time)},{labels},{time}\n"
        if stars >= LIKED:
            history.add(movie, time)


class _History:
    """What one user liked, as a CSV field."""

    def __init__(self) -> None:
        self._movies: deque[str] = deque(maxlen=HISTORY)
        self._text = ""
        self._now: list[str] = []  # liked at second `_time`, and so not yet part of the text
        self._time = 0

    def before(self, time: int) -> str:
        """Movies liked strictly before `time`, oldest first."""
        if self._now and self._time < time:
            self._movies.extend(self._now)
            self._now.clear()
            self._text = "|".join(self._movies)
        return self._text

    def add(self, movie: str, time: int) -> None:
        """Times never go back."""
        self._now.append(movie)
        self._time = time


def _users(text: str) -> dict[str, str]:
    """The columns of each user."""
    return {fields[0]: ",".join(fields) for fields in fields_of(text, name="users.dat", width=5)}


def _movies(text: str) -> dict[str, str]:
    """The columns of each movie."""
    movies = {}
    for movie, title, genres in fields_of(text, name="movies.dat", width=3):
        year = _YEAR.search(title)
        movies[movie] = f"{movie},{year.group(1) if year else ''},{genres}"
    return movies
