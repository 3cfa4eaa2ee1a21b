"""Work in the background: a source is read ahead by one thread, and its items may be worked on by several more.

What comes out is in the order of the source, whatever the threads do. At most `ahead` items exist at a time, the one
that the consumer holds included; the source is not asked for another before there is room, so memory stays flat. An
error in any thread is raised in the consumer, at the place where its item would have come.

Beware: `close` waits for the threads, but only some seconds for one that is stuck in a network read.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

In = TypeVar("In")
Out = TypeVar("Out")

_PATIENCE_SECONDS = 5.0
_POLITENESS = 5


@dataclass
class _Belt:
    """What the threads share. They hold this and not the Conveyor, so that a forgotten Conveyor can be collected."""

    ahead: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    todo: deque[tuple[int, Any]] = field(default_factory=deque)
    done: dict[int, tuple[Any, BaseException | None]] = field(default_factory=dict)
    taken: int = 0
    """Items that the consumer is through with."""
    end: int | None = None
    """How many items there are, once the source is exhausted."""
    stopped: bool = False

    def __post_init__(self) -> None:
        self.room = threading.Condition(self.lock)
        self.work = threading.Condition(self.lock)
        self.ready = threading.Condition(self.lock)

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            self.todo.clear()
            self.done.clear()
            for condition in (self.room, self.work, self.ready):
                condition.notify_all()

    def finish(self, number: int, value: Any, error: BaseException | None) -> None:
        with self.lock:
            if not self.stopped:
                self.done[number] = (value, error)
                self.ready.notify()


class Conveyor(Iterator[Out], Generic[In, Out]):
    """`work` applied to every item of `source`, by `threads` threads; without threads, items pass as they are."""

    def __init__(
        self,
        source: Iterator[In],
        *,
        ahead: int,
        work: Callable[[In], Out] | None = None,
        threads: int = 0,
        upstream: Conveyor[Any, Any] | None = None,
        name: str = "clickline",
    ) -> None:
        """`upstream` is the conveyor that `source` reads from, if any: closing this one closes that one first."""
        self._belt = _Belt(ahead=ahead)
        self._next = 0
        targets: list[tuple[Callable[..., None], tuple[Any, ...], str]] = [
            (_feed, (self._belt, source, work is None), f"{name}-feed")
        ]
        targets += [(_serve, (self._belt, work), f"{name}-{number}") for number in range(threads if work else 0)]
        self._threads = [threading.Thread(target=f, args=args, name=n, daemon=True) for f, args, n in targets]
        started = list(self._threads)
        self._belts = [self._belt]
        if upstream is not None:
            self._belts = [*upstream._belts, self._belt]
            self._threads = [*upstream._threads, *started]
        # Daemons, so that a program that forgets to close still ends; stopped at exit, before Python is taken apart.
        self._finalizer = weakref.finalize(self, _shut, self._belts, self._threads)
        for thread in started:
            thread.start()

    def __next__(self) -> Out:
        belt = self._belt
        with belt.lock:
            belt.taken = self._next
            belt.room.notify()
            while self._next not in belt.done and self._next != belt.end and not belt.stopped:
                belt.ready.wait()
            if belt.stopped or self._next == belt.end:
                raise StopIteration
            value, error = belt.done.pop(self._next)
        if error is not None:
            belt.stop()
            raise error
        self._next += 1
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop the threads and wait for them. Safe to call twice."""
        self._finalizer()


def _shut(belts: list[_Belt], threads: list[threading.Thread]) -> None:
    for belt in belts:
        belt.stop()
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(_PATIENCE_SECONDS)


def _give_way() -> None:
    """Let the threads that compute go first: reading ahead has time, and fits into the gaps that they leave."""
    with suppress(OSError, AttributeError):  # where threads have no priority of their own, all are equal
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _POLITENESS)


def _feed(belt: _Belt, source: Iterator[Any], straight: bool) -> None:
    _give_way()
    number = 0
    try:
        while True:
            with belt.lock:
                while number - belt.taken >= belt.ahead and not belt.stopped:
                    belt.room.wait()
                if belt.stopped:
                    return
            try:
                item = next(source)
            except StopIteration:
                break
            if straight:
                belt.finish(number, item, None)
            else:
                with belt.lock:
                    if belt.stopped:
                        return
                    belt.todo.append((number, item))
                    belt.work.notify()
            del item  # or it would live on while this thread waits for room
            number += 1
    except BaseException as error:
        belt.finish(number, None, error)
        number += 1
    finally:
        close = getattr(source, "close", None)  # generators close their files here
        if close is not None:
            close()
        with belt.lock:
            belt.end = number
            belt.work.notify_all()
            belt.ready.notify_all()


def _serve(belt: _Belt, work: Callable[[Any], Any]) -> None:
    _give_way()
    while True:
        with belt.lock:
            while not belt.todo and belt.end is None and not belt.stopped:
                belt.work.wait()
            if belt.stopped or not belt.todo:
                return
            number, item = belt.todo.popleft()
        try:
            value = work(item)
        except BaseException as error:
            belt.finish(number, None, error)
        else:
            belt.finish(number, value, None)
            del value
        del item
