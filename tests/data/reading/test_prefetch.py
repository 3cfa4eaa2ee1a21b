"""Reading ahead in threads: in order, bounded, with errors where they belong and nothing left running."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import pytest

from clickline.data.prefetch import Prefetcher


def alive() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("clickline")]


@pytest.fixture(autouse=True)
def no_threads_left() -> Iterator[None]:
    yield
    assert alive() == []


@pytest.mark.parametrize("threads", [1, 3])
def test_order_is_kept_however_long_items_take(threads: int) -> None:
    gates = [threading.Event() for _ in range(threads)]

    def work(item: int) -> int:
        # Within each group of `threads`, the later item finishes first.
        if item < threads - 1:
            gates[item + 1].wait(5)
        if item < threads:
            gates[item].set()
        return item * 2

    prefetcher = Prefetcher(iter(range(50)), work=work, threads=threads, ahead=threads + 1)
    assert list(prefetcher) == [item * 2 for item in range(50)]
    prefetcher.close()


def test_source_is_not_read_further_than_allowed() -> None:
    drawn: list[int] = []
    wanted = threading.Semaphore(0)

    def source() -> Iterator[int]:
        for item in range(20):
            drawn.append(item)
            wanted.release()
            yield item

    prefetcher = Prefetcher(source(), ahead=3)
    for held in range(10):
        assert next(prefetcher) == held
        for _ in range(1 if held else 3):
            assert wanted.acquire(timeout=5)
        assert len(drawn) == held + 3
    prefetcher.close()


@pytest.mark.parametrize("threads", [0, 2])
def test_no_more_items_are_alive_than_allowed(threads: int) -> None:
    class Item:
        pass

    items: weakref.WeakSet[Item] = weakref.WeakSet()
    most: list[int] = []

    def source() -> Iterator[Item]:
        for _ in range(50):
            item = Item()
            items.add(item)
            most.append(len(items))
            yield item
            del item

    work = (lambda item: item) if threads else None
    prefetcher = Prefetcher(source(), work=work, threads=threads, ahead=3)
    for item in prefetcher:
        del item
    prefetcher.close()
    assert max(most) <= 3


def test_error_of_the_source_comes_after_the_items_before_it() -> None:
    def source() -> Iterator[int]:
        yield from range(5)
        raise ValueError("broken file")

    prefetcher = Prefetcher(source(), work=lambda item: item, threads=2, ahead=4)
    assert [next(prefetcher) for _ in range(5)] == list(range(5))
    with pytest.raises(ValueError, match="broken file"):
        next(prefetcher)
    assert list(prefetcher) == []
    prefetcher.close()


def test_error_of_the_work_comes_in_its_place() -> None:
    prefetcher = Prefetcher(iter([4, 2, 0, 1]), work=lambda item: 8 // item, threads=2, ahead=4)
    assert [next(prefetcher), next(prefetcher)] == [2, 4]
    with pytest.raises(ZeroDivisionError):
        next(prefetcher)
    prefetcher.close()


def test_early_close_stops_threads_and_closes_the_source() -> None:
    closed = threading.Event()

    def source() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    first = Prefetcher(source(), work=lambda item: item, threads=3, ahead=8, name="clickline-a")
    second = Prefetcher(iter(first), upstream=first, ahead=2, name="clickline-b")
    next(second)
    assert len(alive()) == 5
    second.close()
    second.close()
    assert alive() == []
    assert closed.is_set()


def test_forgotten_prefetcher_stops() -> None:
    prefetcher = Prefetcher(iter(int, 1), work=lambda item: item, threads=2, ahead=4)
    next(prefetcher)
    del prefetcher
    gc.collect()
    assert alive() == []


def test_program_that_does_not_close_still_ends() -> None:
    program = (
        "from clickline.data.prefetch import Prefetcher\n"
        "first = Prefetcher(iter(int, 1), work=lambda item: item, threads=2, ahead=4)\n"
        "second = Prefetcher(iter(first), upstream=first, ahead=2)\n"
        "print(next(second))\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "0\n", "")
