"""A log in the shape of MovieLens: who was shown which movie, liked it or not, and what they had liked before.

    logit = bias + <taste of the user, genres of the movie> + quality of the movie

The taste is nowhere in the log. A little of it follows from gender and age. The rest shows only in what the user liked
before, the column `seen`: everybody loves one circle of genres, and most movies stay within one. So a model that reads
the history beats one that does not. `finish` (watched to the end) is a
second label: only what is liked is finished, and by some occupations more often.

Beware: histories grow from row to row, so a block costs as much as all blocks before it, unless it is the next one.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clickline.data.synthetic.best_score import PARTS, in_parts
from clickline.data.synthetic.log_description import JobPart, LogDescription
from clickline.data.synthetic.random_streams import BLOCK, stream
from clickline.data.synthetic.zipf import Zipf

HISTORY = 20
MOVIES = 1000
ROWS_PER_USER = 40
"""So few that a user's own vector cannot learn the taste well; with 80, a model without the history does as well."""
START, LENGTH = 978_300_000, 90 * 86_400
"""First second of the log since 1970, and how many there are."""
CIRCLES = (
    ("Action", "Adventure", "War", "Western"),
    ("Animation", "Children", "Fantasy", "Musical"),
    ("Comedy", "Drama", "Romance"),
    ("Crime", "Film-Noir", "Mystery", "Thriller"),
    ("Documentary", "Horror", "Sci-Fi"),
)
"""Genres that those who love one of them love all of."""
GENRES = tuple(genre for circle in CIRCLES for genre in circle)
_CIRCLE_OF = np.array([number for number, circle in enumerate(CIRCLES) for _ in circle])
AGES = ("Under18", "18-24", "25-34", "35-44", "45-49", "50-55", "56+")
OCCUPATIONS = 21
_MODEL, _ROWS = range(2)


@dataclass(frozen=True, slots=True)
class MovieRows:
    """Some rows."""

    labels: NDArray[np.uint8]
    chances: NDArray[np.int32]
    """[rows]: the true probability of the label in parts of 2^-20."""
    finish: NDArray[np.uint8]
    user: NDArray[np.int64]
    movie: NDArray[np.int64]
    time: NDArray[np.int64]
    seen: list[str]
    """What the user liked before, oldest first, as written."""


class MovieLensLog:
    """`rows` rows of one seed."""

    name = "movielens"
    suffix = ".csv"
    header = b"label,finish,user,gender,age,occupation,movie,genres,seen,time\n"

    def __init__(self, *, rows: int, seed: int) -> None:
        self.rows, self.seed = rows, seed
        self.users = max(20, rows // ROWS_PER_USER)
        self.law = Zipf(values=MOVIES, top=0.02, exponent=1.2)
        rng = stream(seed=self.seed, purpose=_MODEL)
        self._draw_people(rng)
        self._draw_movies(rng)
        self._restart()

    def _draw_people(self, rng: np.random.Generator) -> None:
        self.gender = rng.integers(0, 2, size=self.users)
        self.age = rng.integers(0, len(AGES), size=self.users)
        self.occupation = rng.integers(0, OCCUPATIONS, size=self.users)
        genders, ages = rng.standard_normal((2, len(GENRES))), rng.standard_normal((len(AGES), len(GENRES)))
        loved = rng.integers(0, len(CIRCLES), size=self.users)[:, None] == _CIRCLE_OF
        own = rng.standard_normal((self.users, len(GENRES)))
        self.taste = 0.3 * genders[self.gender] + 0.3 * ages[self.age] + 0.3 * own + 3.5 * loved
        self.patience = rng.normal(0.5, 1.0, size=OCCUPATIONS)
        self._user_text = [
            f"u{user + 1},{'FM'[self.gender[user]]},{AGES[self.age[user]]},{self.occupation[user]}"
            for user in range(self.users)
        ]

    def _draw_movies(self, rng: np.random.Generator) -> None:
        """One to three genres each, as a rule of one circle."""
        home = rng.integers(0, len(CIRCLES), size=MOVIES)[:, None] == _CIRCLE_OF
        order = (rng.random((MOVIES, len(GENRES))) + np.where(home, 0.0, 0.7)).argsort(axis=1)
        count = rng.choice([1, 2, 3], p=[0.5, 0.35, 0.15], size=MOVIES)
        self.genres = [sorted(int(g) for g in order[movie, : count[movie]]) for movie in range(MOVIES)]
        self.vectors = np.zeros((MOVIES, len(GENRES)))
        for movie, genres in enumerate(self.genres):
            self.vectors[movie, genres] = 1 / np.sqrt(len(genres))
        self.quality = rng.normal(0, 0.5, size=MOVIES)
        self._movie_text = [
            f"m{movie + 1},{'|'.join(GENRES[genre] for genre in genres)}" for movie, genres in enumerate(self.genres)
        ]

    def _restart(self) -> None:
        self._next = 0
        self._liked: list[deque[str]] = [deque(maxlen=HISTORY) for _ in range(self.users)]

    def block(self, number: int) -> MovieRows:
        """Rows number·BLOCK and following."""
        if number < self._next:
            self._restart()
        while self._next < number:
            self._draw(self._next)
        return self._draw(number)

    def _draw(self, number: int) -> MovieRows:
        self._next = number + 1
        rng = stream(seed=self.seed, purpose=_ROWS, number=number)
        places = np.arange(number * BLOCK, min((number + 1) * BLOCK, self.rows))
        size = len(places)
        user = rng.integers(0, self.users, size=BLOCK)[:size]
        movie = self.law.ranks(rng.random(BLOCK))[:size]
        chances = in_parts(-2.5 + (self.taste[user] * self.vectors[movie]).sum(axis=1) + self.quality[movie])
        labels = (rng.integers(0, PARTS, size=BLOCK)[:size] < chances).astype(np.uint8)
        patient = in_parts(self.patience[self.occupation[user]] + self.quality[movie])
        finish = labels * (rng.integers(0, PARTS, size=BLOCK)[:size] < patient)
        time = START + places * LENGTH // self.rows
        return MovieRows(
            labels, chances, finish.astype(np.uint8), user, movie, time, self._remember(user, movie, labels)
        )

    def _remember(self, users: NDArray[np.int64], movies: NDArray[np.int64], labels: NDArray[np.uint8]) -> list[str]:
        """What each row's user liked before it. The one loop over rows: every row changes what the next one sees."""
        seen = []
        for user, movie, label in zip(users.tolist(), movies.tolist(), labels.tolist(), strict=True):
            liked = self._liked[user]
            seen.append("|".join(liked))
            if label:
                liked.append(f"m{movie + 1}")
        return seen

    def text(self, rows: MovieRows) -> tuple[bytes, NDArray[np.int64]]:
        """The lines, and where each ends."""
        columns = (rows.labels, rows.finish, rows.user, rows.movie, rows.time)
        lines = [
            f"{label},{finish},{self._user_text[user]},{self._movie_text[movie]},{seen},{time}\n"
            for (label, finish, user, movie, time), seen in zip(
                zip(*(column.tolist() for column in columns), strict=True), rows.seen, strict=True
            )
        ]
        return "".join(lines).encode(), np.cumsum([len(line) for line in lines], dtype=np.int64)

    def describe(self) -> LogDescription:
        """What else there is to know, for the truth file."""
        vocabulary = {"user": self.users, "movie": MOVIES, "genres": len(GENRES), "occupation": OCCUPATIONS}
        return {"options": {}, "vocabulary": vocabulary}

    def job(self) -> JobPart:
        """The sections of a job that read this log and learn from it: a history is what DIN is made for."""
        slots = [
            *("user", "gender", "age", "occupation", "movie"),
            {"name": "genres", "separator": "|", "pooling": "mean"},
            {"name": "seen", "separator": "|", "pooling": "sequence", "keys_of": "movie", "max_values": HISTORY},
        ]
        return {
            "data": {"format": "csv"},
            "features": {"labels": ["label"], "slots": slots, "time": "time", "group": "user"},
            "model": {"name": "din", "params": {"sequence_length": HISTORY}},
            "train": {"batch_size": 256},  # attention needs more steps than rows alone would give it
        }
