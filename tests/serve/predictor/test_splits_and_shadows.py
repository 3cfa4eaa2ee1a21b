"""Which model answers: by weight, by key, and who is asked in secret."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from math import sqrt

import numpy as np
import pytest

from clickline.net.request_errors import RequestError
from clickline.serve.metrics.counters import series
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.serve.predictor.traffic_split import Shadow, Split, Variant
from support.eventually import eventually
from support.serving.raw_rows import Recorded, ask, assert_close, question
from support.versions.known_versions import Gate, Known

DRAWS = 10_000
VARIANTS = [Variant("one", 7, "a"), Variant("two", 2, "b"), Variant("one", 1, "c")]


@pytest.fixture
def models(known: Known) -> Iterator[dict[str, ServedModel]]:
    """Two models: version 3 and version 1 of the same store. They look for another in an hour."""
    two = ServedModel("two", known.store, interval=3600)
    known.switch(1)
    two.refresh()
    one = ServedModel("one", known.store, interval=3600)
    known.switch(3)
    one.refresh()
    yield {"one": one, "two": two}
    assert (one.current, two.current) == (None, None)  # closed with their predictor


def assert_by_weight(drawn: Counter[str]) -> None:
    for variant in VARIANTS:
        share = variant.weight / 10
        assert abs(drawn[variant.tag] - DRAWS * share) < 3 * sqrt(DRAWS * share * (1 - share)), drawn


@pytest.mark.parametrize("sticky", [False, True])
def test_variants_are_drawn_by_weight(sticky: bool) -> None:
    random.seed(11)
    split = Split("main", VARIANTS, sticky=sticky)
    assert_by_weight(Counter(split.draw(f"user {n}").tag for n in range(DRAWS)))
    assert_by_weight(Counter(split.draw().tag for _ in range(DRAWS)))


def test_a_sticky_split_gives_a_key_the_same_variant_in_every_process() -> None:
    split = Split("main", VARIANTS, sticky=True)
    drawn = [split.draw(f"user {n}").tag for n in range(20)]
    assert drawn == [split.draw(f"user {n}").tag for n in range(20)]
    assert "".join(drawn) == "aaaabbbaaabbbbaaaaaa"
    assert split.draw(7) is split.draw("7")
    other = Split("other", VARIANTS, sticky=True)
    assert drawn != [other.draw(f"user {n}").tag for n in range(20)]


def test_a_split_without_stickiness_does_not_look_at_the_key() -> None:
    split = Split("main", VARIANTS)
    assert len({split.draw("somebody").tag for _ in range(200)}) > 1


def test_the_answer_names_model_and_variant(known: Known, models: dict[str, ServedModel]) -> None:
    counts = Recorded()
    split = Split("main", VARIANTS, sticky=True)
    with Predictor(models, splits={"main": split}, default="main", counts=counts) as predictor:
        seen = set()
        said: dict[str, list[float]] = {}
        for key in range(40):
            variant = split.draw(key)
            answer = ask(predictor, known.rows[:2], key=key)
            assert (answer.model, answer.tag) == (variant.model, variant.tag)
            assert answer.version == {"one": 3, "two": 1}[answer.model]
            assert_close(answer.probability, known.expected[answer.version][:2])
            seen.add(answer.tag)
            said.setdefault(answer.tag, []).extend(answer.probability[:, 0])
        assert seen == {"a", "b", "c"}
        for model, tag in (("one", "a"), ("two", "b"), ("one", "c")):
            predicted = counts.observed["clickline_predicted_probability", series(model, tag, "label")]
            assert 0 < len(predicted) < 80 and set(predicted) <= set(map(float, said[tag]))
        assert sum(len(values) for (name, _), values in counts.observed.items() if "predicted" in name) == 80
        assert ask(predictor, known.rows[:1], "two").tag == ""
        assert predictor.status()["splits"]["main"][1] == {"model": "two", "weight": 2, "tag": "b"}


def test_names_that_are_not_there(models: dict[str, ServedModel]) -> None:
    with Predictor(models, splits={"main": Split("main", VARIANTS)}) as predictor:
        with pytest.raises(RequestError, match=r"there is no model mian; did you mean main\?") as caught:
            predictor.choose("mian")
        assert (caught.value.reason, caught.value.status) == ("unknown_model", 404)
        with pytest.raises(RequestError, match="the request names no model; known: main, one, two"):
            predictor.choose()
        with pytest.raises(RequestError, match="main is a split, whose models have versions of their own"):
            predictor.choose("main", version=3)


def test_a_shadow_is_asked_and_its_answers_are_compared_and_counted(
    known: Known, models: dict[str, ServedModel]
) -> None:
    counts = Recorded()
    shadows = {"one": Shadow("two", 1.0)}
    with Predictor(models, shadows=shadows, default="one", counts=counts) as predictor:
        for _ in range(5):
            answer = ask(predictor, known.rows[:2])
            assert (answer.model, answer.version) == ("one", 3)
        ask(predictor, known.rows[:2], "two")
        eventually(
            lambda: len(counts.observed.get(("clickline_shadow_difference", series("one", "two", "label")), [])) == 10
        )
        assert counts.counted["clickline_shadow_total", series("one", "two", "answered")] == 5
        differences = counts.observed["clickline_shadow_difference", series("one", "two", "label")]
        wanted = abs(known.expected[3][:2, 0] - known.expected[1][:2, 0])
        assert_close(np.array(differences).reshape(5, 2), np.tile(wanted, (5, 1)))
        assert len(counts.observed["clickline_shadow_seconds", series("one", "two")]) == 5
        # What the shadow predicts is not among what the model is said to predict.
        assert len(counts.observed["clickline_predicted_probability", series("one", "", "label")]) == 10


def test_a_shadow_that_hangs_delays_nobody_and_does_not_pile_up(known: Known, models: dict[str, ServedModel]) -> None:
    counts = Recorded()
    with (
        Predictor(models, shadows={"one": Shadow("two", 1.0)}, default="one", counts=counts) as predictor,
        Gate(models["two"].model_version()) as gate,
    ):
        ask(predictor, known.rows[:1])
        assert gate.reached.acquire(timeout=60)  # its copy is held up, alone
        for _ in range(99):
            assert ask(predictor, known.rows[:1]).model == "one"
        # Copies are made after the answer, so the last may be on its way: 64 wait, the rest is refused.
        eventually(
            lambda: counts.counted.get(("clickline_shadow_total", series("one", "two", "overloaded")), 0) == 99 - 64
        )
        assert ("clickline_shadow_total", series("one", "two", "answered")) not in counts.counted
        gate.opened.set()
        eventually(lambda: sum(v for (name, _), v in counts.counted.items() if name == "clickline_shadow_total") == 100)


def test_a_share_of_the_requests_is_copied() -> None:
    random.seed(5)
    drawn = sum(Shadow("two", 0.2).draw() for _ in range(DRAWS))
    assert abs(drawn - 0.2 * DRAWS) < 3 * sqrt(DRAWS * 0.2 * 0.8)


def test_a_shadow_that_is_not_ready_is_no_trouble(known: Known, models: dict[str, ServedModel]) -> None:
    counts = Recorded()
    models["two"].close()
    with Predictor(models, shadows={"one": Shadow("two", 1.0)}, default="one", counts=counts) as predictor:
        chosen = predictor.choose()
        assert predictor.ask(chosen, question(chosen.model_version, known.rows[:1])).model == "one"
        eventually(lambda: counts.counted.get(("clickline_shadow_total", series("one", "two", "not_ready"))) == 1)
