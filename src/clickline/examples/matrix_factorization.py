"""Biased matrix factorization by alternating least squares, in numpy: the baseline of ratings.

    rating(user, movie) = mean + user's bias + movie's bias + user's factors · movie's factors

Biases are means of residuals that are shrunk toward 0; factors are then fitted to what is left, users and movies in
turns, each by a ridge regression of its own. How many factors and how much shrinkage is chosen on the last tenth of
the training rows; the chosen one is then fitted to all of them. A user or movie that was not seen has no bias and no
factors, so its rating is predicted by the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.csv as pa_csv
from numpy.typing import NDArray

FACTORS, RIDGES = (8, 16), (10.0, 20.0, 40.0)
_SHRINK_USER, _SHRINK_MOVIE = 10.0, 25.0
_ROUNDS = 6


@dataclass(frozen=True)
class Ratings:
    """Rows in the order of time."""

    user: NDArray[np.int64]
    movie: NDArray[np.int64]
    stars: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.stars)

    def part(self, first: int, last: int) -> Ratings:
        return Ratings(self.user[first:last], self.movie[first:last], self.stars[first:last])


@dataclass(frozen=True)
class Factorization:
    """What was fitted; its arrays have a place for every number that a user or movie may have."""

    mean: float
    user_bias: NDArray[np.float64]
    movie_bias: NDArray[np.float64]
    user_factors: NDArray[np.float64]
    movie_factors: NDArray[np.float64]

    def predict(self, rows: Ratings) -> NDArray[np.float64]:
        biases = self.mean + self.user_bias[rows.user] + self.movie_bias[rows.movie]
        products: NDArray[np.float64] = self.user_factors[rows.user] * self.movie_factors[rows.movie]
        predicted: NDArray[np.float64] = biases + products.sum(axis=1)
        return predicted


def read_ratings(path: Path) -> Ratings:
    """Of a file that `clickline data import movielens` wrote."""
    options = pa_csv.ConvertOptions(include_columns=["user", "movie", "rating"])
    table = pa_csv.read_csv(path, convert_options=options)
    return Ratings(
        table["user"].to_numpy().astype(np.int64),
        table["movie"].to_numpy().astype(np.int64),
        table["rating"].to_numpy().astype(np.float64),
    )


def errors(predicted: NDArray[np.float64], rows: Ratings) -> dict[str, float]:
    """RMSE and MAE."""
    off = predicted - rows.stars
    return {"rmse": float(np.sqrt((off**2).mean())), "mae": float(np.abs(off).mean())}


def size_of(*parts: Ratings) -> tuple[int, int]:
    """Places for all users and for all movies."""
    return max(int(part.user.max()) for part in parts) + 1, max(int(part.movie.max()) for part in parts) + 1


def tuned(train: Ratings, *, size: tuple[int, int], seed: int = 1) -> tuple[Factorization, int, float]:
    """The best by the last tenth of the training rows, fitted to all of them; its factors and its ridge."""
    cut = len(train) * 9 // 10
    early, late = train.part(0, cut), train.part(cut, len(train))
    scores = {
        (factors, ridge): errors(fitted(early, factors=factors, ridge=ridge, size=size, seed=seed).predict(late), late)
        for factors, ridge in product(FACTORS, RIDGES)
    }
    factors, ridge = min(scores, key=lambda choice: scores[choice]["rmse"])
    return fitted(train, factors=factors, ridge=ridge, size=size, seed=seed), factors, ridge


def fitted(rows: Ratings, *, factors: int, ridge: float, size: tuple[int, int], seed: int = 1) -> Factorization:
    """Biases first, then factors of what they leave."""
    mean = float(rows.stars.mean())
    movie_bias = _shrunk(rows.movie, rows.stars - mean, size[1], _SHRINK_MOVIE)
    user_bias = _shrunk(rows.user, rows.stars - mean - movie_bias[rows.movie], size[0], _SHRINK_USER)
    left = rows.stars - mean - movie_bias[rows.movie] - user_bias[rows.user]
    random = np.random.default_rng(seed)
    user_factors = np.zeros((size[0], factors))
    movie_factors = random.normal(0, 0.1, (size[1], factors))
    by_user, by_movie = _grouped(rows.user), _grouped(rows.movie)
    for _ in range(_ROUNDS):
        _solve(user_factors, by_user, movie_factors, rows.movie, left, ridge)
        _solve(movie_factors, by_movie, user_factors, rows.user, left, ridge)
    seen = np.zeros(size[1], bool)
    seen[rows.movie] = True
    movie_factors[~seen] = 0
    return Factorization(mean, user_bias, movie_bias, user_factors, movie_factors)


def _shrunk(index: NDArray[np.int64], values: NDArray[np.float64], size: int, shrink: float) -> NDArray[np.float64]:
    """Mean of the values of each number, as if there were `shrink` zeros more of each."""
    return np.bincount(index, values, size) / (np.bincount(index, minlength=size) + shrink)


def _grouped(index: NDArray[np.int64]) -> list[tuple[int, NDArray[np.intp]]]:
    """The rows of each number."""
    order = np.argsort(index, kind="stable")
    numbers, starts = np.unique(index[order], return_index=True)
    return list(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))


def _solve(
    wanted: NDArray[np.float64],
    groups: list[tuple[int, NDArray[np.intp]]],
    given: NDArray[np.float64],
    other: NDArray[np.int64],
    left: NDArray[np.float64],
    ridge: float,
) -> None:
    """One side's factors, given those of the other side."""
    penalty = ridge * np.eye(given.shape[1])
    for number, rows in groups:
        x = given[other[rows]]
        wanted[number] = np.linalg.solve(x.T @ x + penalty, x.T @ left[rows])
