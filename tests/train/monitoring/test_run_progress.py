"""How far a run is as a whole, how long it will still take, and whether a loop still turns."""

from __future__ import annotations

import pytest

from clickline.train.monitoring.loop_liveness import LoopLiveness
from clickline.train.monitoring.run_progress import RunProgress


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_progress_is_over_all_epochs_and_the_time_left_follows_from_its_speed() -> None:
    clock = Clock()
    progress = RunProgress(epochs=4, clock=clock)
    assert progress.of(epochs_done=0, share=0.0, steps=0) == (0.0, None)
    clock.now += 10
    assert progress.of(epochs_done=0, share=0.4, steps=40) == (0.1, 90.0)
    clock.now += 10
    assert progress.of(epochs_done=1, share=0.0, steps=100) == (0.25, 60.0)
    assert progress.of(epochs_done=4, share=0.0, steps=400, finished=True) == (1.0, 0.0)


def test_a_run_that_went_back_to_a_checkpoint_is_measured_anew() -> None:
    clock = Clock()
    progress = RunProgress(epochs=1, clock=clock)
    progress.of(epochs_done=0, share=0.0, steps=0)
    clock.now += 10
    progress.of(epochs_done=0, share=0.5, steps=50)
    clock.now += 10
    assert progress.of(epochs_done=0, share=0.2, steps=20) == (0.2, None)
    clock.now += 10
    assert progress.of(epochs_done=0, share=0.6, steps=60) == (0.6, pytest.approx(10.0))


@pytest.mark.parametrize(("share", "done"), [(None, 0.25), (0.1, 0.25), (0.9, 0.9)])
def test_steps_count_where_they_are_limited(share: float | None, done: float) -> None:
    assert RunProgress(epochs=1, max_steps=200).of(epochs_done=0, share=share, steps=50)[0] == done


def test_progress_is_unknown_where_the_size_of_the_data_is() -> None:
    assert RunProgress(epochs=3).of(epochs_done=1, share=None, steps=50) == (None, None)


def test_a_loop_that_hangs_is_reported_and_one_that_has_not_begun_or_has_ended_is_not() -> None:
    clock = Clock()
    loop = LoopLiveness("the loop", limit=60, clock=clock)
    clock.now += 1000
    assert loop.complaints() == []
    loop.turned()
    clock.now += 60
    assert loop.complaints() == []
    clock.now += 1
    assert loop.complaints() == ["the loop has not turned for 61 s; at most 60 s are expected"]
    loop.ended()
    assert loop.complaints() == []
