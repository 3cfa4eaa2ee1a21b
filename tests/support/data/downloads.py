"""Small fakes of what users download. No row of the real datasets is in here."""

from __future__ import annotations

import io
import random
import tarfile
import zipfile
from pathlib import Path

AVAZU_COLUMNS = (
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip,"
    "device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21"
)


def criteo_lines(rows: int) -> list[bytes]:
    """Rows that say, in C1, which they are."""
    draw = random.Random(7)
    lines = []
    for row in range(rows):
        integers = [draw.choice(["", str(draw.randrange(-2, 900))]) for _ in range(13)]
        categories = [f"{row:08x}", *(draw.choice(["", f"{draw.randrange(50):08x}"]) for _ in range(25))]
        lines.append("\t".join([str(draw.randrange(2)), *integers, *categories]).encode() + b"\n")
    return lines


def tar_gz(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


def avazu_lines(hours: list[str]) -> list[bytes]:
    """One row for each hour, numbered by their id."""
    return [
        ",".join([str(row), str(row % 2), hour, *(f"v{column}" for column in range(21))]).encode() + b"\n"
        for row, hour in enumerate(hours)
    ]


USERS = "1::F::1::10::48067\n2::M::56::16::70072-1234\n"
MOVIES = (
    "1::Plain Story (1995)::Animation|Comedy\n"
    "2::Caf\xe9: The::Movie (1996)::Drama\n"
    "3::Without a year::Children's\n" + "".join(f"{n}::Movie {n} (1990)::Drama\n" for n in range(4, 60))
)


def movielens_zip(path: Path, rated: list[tuple[int, int, int, int]], **texts: str) -> Path:
    """Ratings are user, movie, stars, time; `texts` replace whole files."""
    texts = {"users": USERS, "movies": MOVIES, "ratings": ratings_text(rated)} | texts
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml-1m/", "")
        for name, text in texts.items():
            archive.writestr(f"ml-1m/{name}.dat", text.encode("latin-1"))
    return path


def ratings_text(ratings: list[tuple[int, int, int, int]]) -> str:
    return "".join("::".join(map(str, rating)) + "\n" for rating in ratings)


def left(directory: Path) -> list[str]:
    """Everything in a directory, hidden things too."""
    return sorted(item.name for item in directory.iterdir())


def rated_movielens(path: Path, *, users: int = 40, movies: int = 50, ratings: int = 1200) -> Path:
    """ml-1m.zip with made up ratings: some users give more stars, some movies get more, the rest is chance."""
    draw = random.Random(11)
    generous = [draw.gauss(0, 0.7) for _ in range(users)]
    good = [draw.gauss(0, 0.9) for _ in range(movies)]
    pairs = draw.sample([(user, movie) for user in range(users) for movie in range(movies)], ratings)
    rated = [
        (user + 1, movie + 1, min(5, max(1, round(3.4 + generous[user] + good[movie] + draw.gauss(0, 0.4)))), time)
        for time, (user, movie) in enumerate(pairs, 1)
    ]
    people = [f"{n}::{'FM'[n % 2]}::{(1, 18, 25)[n % 3]}::{n % 7}::{10000 + n}\n" for n in range(1, users + 1)]
    titles = [f"{n}::Movie {n} ({1980 + n % 20})::{('War', 'Drama|Comedy')[n % 2]}\n" for n in range(1, movies + 1)]
    return movielens_zip(path, rated, users="".join(people), movies="".join(titles))
