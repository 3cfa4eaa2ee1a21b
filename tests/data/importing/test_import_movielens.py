"""Importing MovieLens: labels, columns, and histories that know nothing of the present."""

from __future__ import annotations

import csv
import random
import zipfile
from pathlib import Path

import pytest

from clickline import train_job
from clickline._native import feature_key
from clickline.config.loading.reader import read_job
from clickline.data.dataset import Dataset
from clickline.data.importers import import_movielens
from clickline.data.importers.movielens import HISTORY
from clickline.data.schema import Schema
from clickline.errors import DataError
from support.data.downloads import MOVIES, USERS, left, movielens_zip, ratings_text

OUTCOMES = ["label", "five_stars", "rating", "time"]
RATINGS = [(1, 2, 5, 300), (1, 1, 4, 100), (2, 3, 3, 200), (1, 3, 4, 300), (1, 4, 1, 301), (2, 1, 5, 400)]


def rows_of(*paths: Path) -> list[dict[str, str]]:
    rows = []
    for path in paths:
        with path.open(encoding="utf-8", newline="") as file:
            rows += list(csv.DictReader(file))
    return rows


def test_rows_in_the_order_of_time_with_all_columns(tmp_path):
    done = import_movielens(str(movielens_zip(tmp_path / "ml-1m.zip", RATINGS)), tmp_path / "out", test_share=0.3)
    assert (done.train_rows, done.test_rows) == (4, 2)
    assert [line.split(",") for line in done.train.read_text(encoding="utf-8").splitlines()] == [
        ["user", "gender", "age", "occupation", "zip", "movie", "year", "genres", "seen", *OUTCOMES],
        ["1", "F", "1", "10", "48067", "1", "1995", "Animation|Comedy", "", "1", "0", "4", "100"],
        ["2", "M", "56", "16", "70072-1234", "3", "", "Children's", "", "0", "0", "3", "200"],
        ["1", "F", "1", "10", "48067", "2", "1996", "Drama", "1", "1", "1", "5", "300"],
        ["1", "F", "1", "10", "48067", "3", "", "Children's", "1", "1", "0", "4", "300"],
    ]
    assert [(row["movie"], row["seen"], row["label"]) for row in rows_of(done.test)] == [
        ("4", "1|2|3", "0"),
        ("1", "", "1"),
    ]


def test_histories_are_strictly_of_the_past(tmp_path):
    draw = random.Random(3)
    pairs = draw.sample([(user, movie) for user in (1, 2) for movie in range(1, 60)], 110)
    ratings = [(user, movie, draw.randint(1, 5), draw.randrange(40)) for user, movie in pairs]
    done = import_movielens(str(movielens_zip(tmp_path / "a.zip", ratings)), tmp_path / "out")
    rows = rows_of(done.train, done.test)
    assert [int(row["time"]) for row in rows] == sorted(time for *_, time in ratings)
    for row in rows:
        earlier = sorted(
            (time, place, movie)
            for place, (user, movie, stars, time) in enumerate(ratings)
            if user == int(row["user"]) and stars >= 4 and time < int(row["time"])
        )
        expected = [str(movie) for *_, movie in earlier][-HISTORY:]
        assert row["seen"].split("|") == (expected or [""])
    assert max(row["seen"].count("|") for row in rows) == HISTORY - 1


def test_the_job_reads_the_rows_and_histories_share_the_keys_of_movies(tmp_path):
    done = import_movielens(str(movielens_zip(tmp_path / "a.zip", RATINGS)), tmp_path / "out", test_share=0.3)
    job = read_job(done.job).job
    assert (job.model.name, job.features.time, job.features.group) == ("din", "time", "user")
    schema = Schema.of(job.data, job.features)
    data = Dataset(data=job.data, schema=schema, paths=job.data.test, batch_size=8, seed=1, shuffle=False)
    [(batch, _)] = data.batches(epoch=0, start=None)
    assert batch.offsets is not None
    seen = schema.slot_names.index("seen")
    first = batch.keys[batch.offsets[seen] : batch.offsets[seen + 1]].tolist()
    assert first == [feature_key("movie", movie) for movie in (b"1", b"2", b"3")]
    assert batch.times is not None
    assert batch.times.tolist() == [301, 400]


def test_two_labels_make_a_job_that_trains_mmoe_on_both(tmp_path):
    ratings = [(1 + n % 2, 1 + n % 59, 1 + n % 5, n) for n in range(300)]
    source = str(movielens_zip(tmp_path / "a.zip", ratings))
    done = import_movielens(source, tmp_path / "out", two_labels=True)
    job = read_job(done.job).job
    assert (job.model.name, job.features.labels) == ("mmoe", ["label", "five_stars"])
    update = {"output": str(tmp_path / "runs"), "train": job.train.model_copy(update={"epochs": 1})}
    test = train_job(job.model_copy(update=update)).test
    assert (test["rows"], test["five_stars.rows"]) == (60, 60)
    assert test["five_stars.ctr"] < test["ctr"]


def test_a_second_job_predicts_the_stars_themselves(tmp_path):
    ratings = [(1 + n % 2, 1 + n % 59, 1 + (n * 7) % 5, n) for n in range(300)]
    done = import_movielens(str(movielens_zip(tmp_path / "a.zip", ratings)), tmp_path / "out")
    assert done.other_jobs == (tmp_path / "out" / "rating.yaml",)
    job = read_job(done.other_jobs[0]).job
    assert (job.train.loss, job.features.labels, job.data.train) == ("squared", ["rating"], [str(done.train)])
    assert not {"label", "five_stars"} & {slot.name for slot in job.features.slots}
    update = {"output": str(tmp_path / "runs"), "train": job.train.model_copy(update={"epochs": 1})}
    test = train_job(job.model_copy(update=update)).test
    assert test["rows"] == 60
    assert test["mae"] < test["rmse"] < 1.6  # stars from 1 to 5 are 1.4 off their mean


def test_names_in_an_archive_lead_nowhere(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    movielens_zip(inside / "a.zip", RATINGS)
    with zipfile.ZipFile(inside / "a.zip") as good, zipfile.ZipFile(inside / "b.zip", "w") as hostile:
        for name in ("ratings", "users", "movies"):
            hostile.writestr(f"../../{name}.dat", good.read(f"ml-1m/{name}.dat"))
        hostile.writestr("../escaped.txt", "x")
        hostile.writestr(str(tmp_path / "absolute.txt"), "x")
    import_movielens(str(inside / "b.zip"), inside / "out")
    assert left(tmp_path) == ["inside"]
    assert left(inside) == ["a.zip", "b.zip", "out"]
    assert left(inside / "out") == ["job.yaml", "rating.yaml", "test.csv", "train.csv"]


def test_an_unpacked_directory_gives_the_same(tmp_path):
    packed = movielens_zip(tmp_path / "ml-1m.zip", RATINGS)
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(tmp_path / "unpacked")
    one = import_movielens(str(packed), tmp_path / "one")
    other = import_movielens(str(tmp_path / "unpacked" / "ml-1m"), tmp_path / "other")
    assert one.train.read_bytes() == other.train.read_bytes()
    assert one.test.read_bytes() == other.test.read_bytes()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1::2::5", "expected user::movie::stars::time"),
        ("1::2::6::100", "expected user::movie::stars::time"),
        ("1::2::5::-100", "expected user::movie::stars::time"),
        ("9::2::5::100", "the user '9' is not in users.dat"),
        ("1::99::5::100", "the movie '99' is not in movies.dat"),
    ],
)
def test_a_bad_rating_is_told_and_too_many_are_an_error(line, reason, tmp_path):
    many = [(1 + n % 2, 1 + n % 59, 1 + n % 5, n) for n in range(1200)]
    text = ratings_text(many[:2]) + line + "\n" + ratings_text(many[2:])
    done = import_movielens(str(movielens_zip(tmp_path / "a.zip", [], ratings=text)), tmp_path / "out")
    assert (done.train_rows + done.test_rows, done.bad) == (1200, 1)
    assert done.first_bad is not None
    assert (done.first_bad.line, reason in done.first_bad.reason) == (3, True)
    few = movielens_zip(tmp_path / "a.zip", [], ratings=ratings_text(many[:2]) + line)
    with pytest.raises(DataError, match=r"1 of 3 lines .* the first is line 3"):
        import_movielens(str(few), tmp_path / "new")
    assert left(tmp_path) == ["a.zip", "out"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"users": USERS + "3::F::1,5::1::1\n"}, "users.dat, line 3: expected 5 fields"),
        ({"users": "UserID,Gender\n"}, "users.dat, line 1"),
        ({"movies": MOVIES + 'x::"A (1990)::Drama\n'}, "movies.dat, line 60"),
        ({"movies": "1::Comedy\n"}, "movies.dat, line 1: expected 3 fields"),
    ],
)
def test_bad_users_and_movies_are_errors(files, message, tmp_path):
    source = movielens_zip(tmp_path / "a.zip", RATINGS, **files)
    with pytest.raises(DataError, match=message):
        import_movielens(str(source), tmp_path / "out")
    assert left(tmp_path) == ["a.zip"]


def test_other_files_are_refused_with_what_was_expected(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK but no zip")
    with pytest.raises(DataError, match=r"not a zip archive.*; expected is ml-1m.zip"):
        import_movielens(str(tmp_path / "a.zip"), tmp_path / "out")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("ml-latest/ratings.csv", "userId,movieId")
    with pytest.raises(DataError, match=r"no ratings.dat and no users.dat and no movies.dat; expected is ml-1m.zip"):
        import_movielens(str(tmp_path / "a.zip"), tmp_path / "out")
    with pytest.raises(DataError, match=r"no such file.*; expected is ml-1m.zip"):
        import_movielens(str(tmp_path / "gone.zip"), tmp_path / "out")
    assert left(tmp_path) == ["a.zip"]


def test_a_huge_member_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("clickline.data.importers.movielens_files._MAX_BYTES", 1000)
    with pytest.raises(DataError, match=r"movies.dat.*is larger than"):
        import_movielens(str(movielens_zip(tmp_path / "a.zip", RATINGS)), tmp_path / "out")
    assert left(tmp_path) == ["a.zip"]


def test_a_damaged_member_is_refused(tmp_path):
    source = movielens_zip(tmp_path / "a.zip", RATINGS)
    content = source.read_bytes()
    source.write_bytes(content.replace(b"1::2::5::300", b"1::2::4::300"))
    with pytest.raises(DataError, match=r"damaged one .*CRC"):
        import_movielens(str(source), tmp_path / "out")


def test_overwriting_needs_force(tmp_path):
    source = str(movielens_zip(tmp_path / "a.zip", RATINGS))
    import_movielens(source, tmp_path / "out")
    with pytest.raises(DataError, match=r"has train.csv, test.csv, job.yaml, rating.yaml already"):
        import_movielens(source, tmp_path / "out")
    assert import_movielens(source, tmp_path / "out", test_share=0.5, force=True).test_rows == 3
