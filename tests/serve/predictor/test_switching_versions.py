"""Versions come and go under load; every answer is of one version, whole, and what is not needed is let go."""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections import Counter
from pathlib import Path

import fsspec
import pytest

from clickline.net.request_errors import RequestError
from clickline.serve.metrics.counters import series
from clickline.serve.prediction import PredictionResult
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.versions import donefile, file_copy
from clickline.versions.store import Store, open_store
from support.eventually import eventually
from support.serving.raw_rows import Recorded, ask, assert_close, question
from support.versions.known_versions import Known, seal


def test_the_newest_version_answers_and_says_so(known: Known, served: ServedModel) -> None:
    with Predictor({"ctr": served}) as predictor:
        assert predictor.ready()
        answer = ask(predictor, known.rows)
    assert (answer.version, answer.model, answer.tag, answer.labels) == (3, "ctr", "", ("label",))
    assert_close(answer.probability, known.expected[3])


def test_no_answer_mixes_versions_while_they_switch(known: Known) -> None:
    stop, wrong, seen = threading.Event(), [], Counter[int]()

    def client(seed: int) -> None:
        number = seed
        while not stop.is_set():
            number += 1
            first = number % 30
            answer = ask(predictor, known.rows[first : first + 1 + number % 9])
            wanted = known.expected[answer.version][first : first + len(answer.probability)]
            if abs(answer.probability - wanted).max() > 1e-5:
                wrong.append((answer.version, first))
            seen[answer.version] += 1

    with Predictor({"ctr": ServedModel("ctr", known.store, interval=0.002)}) as predictor:
        eventually(predictor.ready)
        clients = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
        for one in clients:
            one.start()
        try:
            for turn in range(24):
                version = 1 + (turn % 3)
                known.switch(version)
                before = seen.total()
                eventually(lambda version=version: predictor.models["ctr"].model_version().version == version)
                eventually(lambda before=before: seen.total() > before + 3)
        finally:
            stop.set()
            for one in clients:
                one.join()
    assert not wrong
    assert set(seen) == {1, 2, 3}


def test_a_request_keeps_its_version_to_the_end(known: Known, served: ServedModel) -> None:
    with Predictor({"ctr": served}) as predictor:
        chosen = predictor.choose()
        known.switch(1)
        assert served.refresh()
        answer = predictor.ask(chosen, question(chosen.model_version, known.rows))
        assert answer.version == 3
        assert_close(answer.probability, known.expected[3])
        assert ask(predictor, known.rows).version == 1


def mapped(name: str) -> bool:
    return name in Path("/proc/self/maps").read_text()


def test_a_version_is_let_go_with_its_last_request(known: Known) -> None:
    served = ServedModel("ctr", known.store, interval=3600, keep=1)
    served.refresh()
    with Predictor({"ctr": served}) as predictor:
        ask(predictor, known.rows)
        chosen = predictor.choose()
        old = weakref.ref(chosen.model_version)
        place = f"{known.store.url}/v0000000003"
        known.switch(1)
        served.refresh()
        assert ask(predictor, known.rows).version == 1
        assert old() is not None and mapped(place)  # somebody holds it
        assert_close(predictor.ask(chosen, question(chosen.model_version, known.rows)).probability, known.expected[3])
        del chosen
        eventually(lambda: old() is None)
        assert not mapped(place)
        assert mapped(f"{known.store.url}/v0000000001")


def test_many_switches_leave_nothing_open(known: Known) -> None:
    served = ServedModel("ctr", known.store, interval=3600, keep=1)
    with Predictor({"ctr": served}) as predictor:
        eventually(predictor.ready)

        def turn() -> tuple[int, int]:
            for version in (1, 2, 3):
                known.switch(version)
                assert served.refresh() or version == served.model_version().version
                assert ask(predictor, known.rows[:3]).version == version
            maps = Path("/proc/self/maps").read_text().count(".dict")
            return len(list(Path("/proc/self/fd").iterdir())), maps

        first = turn()
        for _ in range(5):
            last = turn()
        assert last == first


def test_the_last_versions_can_be_asked_for_by_number(known: Known, served: ServedModel) -> None:
    known.switch(1)
    served.refresh()
    with Predictor({"ctr": served}) as predictor:
        assert ask(predictor, known.rows).version == 1
        answer = ask(predictor, known.rows, version=3)
        assert answer.version == 3
        assert_close(answer.probability, known.expected[3])
        with pytest.raises(RequestError, match=r"no version 2 loaded; loaded are: 1, 3") as caught:
            predictor.choose(version=2)
        assert (caught.value.reason, caught.value.status) == ("unknown_version", 404)


def test_without_a_version_nothing_is_ready(tmp_path: Path) -> None:
    served = ServedModel("ctr", open_store(tmp_path / "empty"), interval=3600)
    with Predictor({"ctr": served}) as predictor:
        assert not predictor.ready()
        with pytest.raises(RequestError, match="model ctr has no version yet") as caught:
            predictor.choose()
        assert (caught.value.reason, caught.value.status) == ("not_ready", 503)


def test_a_version_that_predicts_otherwise_is_not_taken(known: Known) -> None:
    counts = Recorded()
    known.switch(1)
    served = ServedModel("ctr", known.store, interval=1e-9, counts=counts)
    assert served.refresh()
    files = [Path(known.store.url) / donefile.directory_of(version) / "network.onnx" for version in (1, 3)]
    good = files[1].read_bytes()
    files[1].write_bytes(files[0].read_bytes())  # a network that runs, with the numbers of another version
    sealed = seal(known.store, 3)
    known.switch(3)
    with Predictor({"ctr": served}) as predictor:
        assert not served.refresh()
        assert_close(ask(predictor, known.rows).probability, known.expected[1])
        failure = served.status()["failure"]
        assert failure["version"] == 3 and "predictions of its golden sample differ by up to" in failure["error"]
        assert counts.counted["clickline_version_failures_total", ""] >= 1
        files[1].write_bytes(good[:-10])
        assert not served.refresh()
        assert "bytes; expected" in served.status()["failure"]["error"]
        files[1].write_bytes(good)
        sealed()
        eventually(lambda: served.refresh() or served.model_version().version == 3)
        assert served.status()["failure"] is None
        assert_close(ask(predictor, known.rows).probability, known.expected[3])
    assert counts.gauges["clickline_version", "ctr"] == 3


def test_a_failed_version_is_not_tried_at_every_look(known: Known) -> None:
    counts = Recorded()
    (Path(known.store.url) / donefile.directory_of(3) / "network.onnx").write_bytes(b"")
    served = ServedModel("ctr", known.store, interval=600, counts=counts)
    for _ in range(5):
        assert not served.refresh()
    assert counts.counted["clickline_version_failures_total", ""] == 1
    with pytest.raises(RequestError, match=r"no version yet: .*expected"):
        served.model_version()


def test_a_garbled_donefile_leaves_the_current_version_in_service(known: Known, served: ServedModel) -> None:
    with (Path(known.store.url) / donefile.DONEFILE).open("ab") as file:
        file.write(b"garbled\n")
    assert not served.refresh()
    assert "garbled" in served.status()["failure"]["error"]
    assert served.model_version().version == 3


def test_a_store_elsewhere_is_fetched_once_and_leaves_nothing_behind(
    known: Known, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known.switch(1)
    for lock in Path(known.store.url).glob(".*.lock"):
        lock.unlink()
    fsspec.filesystem("memory").put(f"{known.store.url}/", f"/{tmp_path.name}/", recursive=True)
    elsewhere = open_store(f"memory://{tmp_path.name}")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    fetched: list[str] = []
    copy = file_copy._copy

    def copy_and_tell(store: Store, name: str, to: Path, *, limit: int) -> str:
        fetched.append(name)
        return copy(store, name, to, limit=limit)

    monkeypatch.setattr(file_copy, "_copy", copy_and_tell)
    served = ServedModel("ctr", elsewhere, interval=3600)
    with Predictor({"ctr": served}) as predictor:
        eventually(predictor.ready)
        assert_close(ask(predictor, known.rows).probability, known.expected[1])
        base = {name for name in fetched if name.endswith(".dict")}
        assert base
        fetched.clear()
        donefile.append_rollback(elsewhere, to=3)
        assert served.refresh()
        assert_close(ask(predictor, known.rows).probability, known.expected[3])
        assert not base & set(fetched)
        assert len(fetched) == len(set(fetched)) and any(name.endswith(".dict") for name in fetched)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_what_is_counted_on_the_way(known: Known) -> None:
    counts = Recorded()
    served = ServedModel("ctr", known.store, interval=3600, counts=counts)
    served.refresh()
    assert ("clickline_keys_total", "") not in counts.counted  # the check of a version is no request
    with Predictor({"ctr": served}, counts=counts) as predictor:
        answer = ask(predictor, [{**row, "C1": "never seen before"} for row in known.rows[:4]])
    assert isinstance(answer, PredictionResult)
    assert counts.counted["clickline_rows_total", ""] == 4
    assert counts.counted["clickline_keys_total", ""] > 50
    assert counts.counted["clickline_missing_keys_total", ""] >= 2  # one key, two tables
    assert counts.counted["clickline_missing_values_total", ""] > 0
    assert counts.observed["clickline_batch_rows", ""] == [4]
    assert {label for name, label in counts.observed if name == "clickline_seconds"} == {
        series("queue", "ctr", ""),
        series("rows", "ctr"),
        series("network", "ctr"),
    }
    assert counts.counted["clickline_version_loads_total", ""] == 1
