"""Prefetching: a source is read ahead by one thread, and its items may be processed by several more.

Items come out in the order of the source, whatever the threads do. At most `ahead` items exist at a time, the one that
the consumer holds included; the source is not asked for another before there is room, so memory stays flat. An error
in any thread is raised in the consumer, at the place where its item would have come.

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

_JOIN_SECONDS = 5.0
_NICENESS = 5


@dataclass
class _Queue:
    """The state that the threads share.

    Threads hold this object and never the Prefetcher, so that a Prefetcher without references is collected, and its
    finalizer stops them. Items are numbered from 0 in the order of the source.
    """

    ahead: int
    lock: threading.Lock = field(default_factory=threading.Lock)
    todo: deque[tuple[int, Any]] = field(default_factory=deque)
    """Items that were read and wait for a worker, by number."""
    done: dict[int, tuple[Any, BaseException | None]] = field(default_factory=dict)
    """Results, or the errors in their place, by number; the consumer takes them in order."""
    taken: int = 0
    """Items that the consumer has finished with."""
    end: int | None = None
    """The number of items, once the source is exhausted."""
    stopped: bool = False

    def __post_init__(self) -> None:
        # One lock, three reasons to wait: the reader for room, workers for work, the consumer for a result.
        self.room = threading.Condition(self.lock)
        self.work = threading.Condition(self.lock)
        self.ready = threading.Condition(self.lock)

    def stop(self) -> None:
        """Drop all items and wake every thread, which then ends."""
        with self.lock:
            self.stopped = True
            self.todo.clear()
            self.done.clear()
            for condition in (self.room, self.work, self.ready):
                condition.notify_all()

    def finish(self, number: int, value: Any, error: BaseException | None) -> None:
        """Hand an item's result, or its error, to the consumer."""
        with self.lock:
            # After a stop there is no consumer: a result stored now would stay in memory as long as the queue.
            if not self.stopped:
                self.done[number] = (value, error)
                self.ready.notify()


class Prefetcher(Iterator[Out], Generic[In, Out]):
    """`work` applied to every item of `source`, by `threads` threads; without `work`, items pass as they are."""

    def __init__(
        self,
        source: Iterator[In],
        *,
        ahead: int,
        work: Callable[[In], Out] | None = None,
        threads: int = 0,
        upstream: Prefetcher[Any, Any] | None = None,
        name: str = "clickline",
    ) -> None:
        """`upstream` is the prefetcher that `source` reads from, if any: closing this one closes that one first."""
        self._queue = _Queue(ahead=ahead)
        self._next = 0
        targets: list[tuple[Callable[..., None], tuple[Any, ...], str]] = [
            (_read_source, (self._queue, source, work is None), f"{name}-feed")
        ]
        targets += [(_work, (self._queue, work), f"{name}-{number}") for number in range(threads if work else 0)]
        own_threads = [threading.Thread(target=f, args=args, name=n, daemon=True) for f, args, n in targets]
        self._queues, self._threads = [self._queue], own_threads
        if upstream is not None:
            # Upstream first: our reader may be waiting for an item of its queue.
            self._queues = [*upstream._queues, self._queue]
            self._threads = [*upstream._threads, *own_threads]
        # Daemons, so that a program that forgets to close still ends; stopped at exit, before Python is taken apart.
        self._finalizer = weakref.finalize(self, _shut_down, self._queues, self._threads)
        for thread in own_threads:
            thread.start()

    def __next__(self) -> Out:
        queue = self._queue
        with queue.lock:
            # To ask for the next item is to be done with the one before: now there is room for another.
            queue.taken = self._next
            queue.room.notify()
            # `end` is set before the workers are through: items below it are still to come, so only equality counts.
            while self._next not in queue.done and self._next != queue.end and not queue.stopped:
                queue.ready.wait()
            if queue.stopped or self._next == queue.end:
                raise StopIteration
            value, error = queue.done.pop(self._next)
        if error is not None:
            # No item after an error is handed out: the next call ends the iteration, and the threads stop.
            queue.stop()
            raise error
        self._next += 1
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Stop the threads and wait for them. Safe to call twice."""
        self._finalizer()


def _shut_down(queues: list[_Queue], threads: list[threading.Thread]) -> None:
    # All queues are stopped before the first join: a thread of one stage may be waiting for an item of another.
    for queue in queues:
        queue.stop()
    for thread in threads:
        # Garbage collection may run this finalizer in one of the threads themselves, which cannot join itself.
        if thread is not threading.current_thread():
            thread.join(_JOIN_SECONDS)


def _lower_priority() -> None:
    """Let the threads that compute go first: reading ahead has time, and fits into the gaps that they leave."""
    with suppress(OSError, AttributeError):  # where threads have no priority of their own, all are equal
        # Linux applies the priority to the thread with this id alone, not to the process.
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)


def _read_source(queue: _Queue, source: Iterator[Any], without_work: bool) -> None:
    """The reader's thread: takes items from the source while there is room for them."""
    _lower_priority()
    number = 0
    try:
        while True:
            with queue.lock:
                # Items from `taken` on are in memory: waiting for a worker, in work, done, or with the consumer.
                while number - queue.taken >= queue.ahead and not queue.stopped:
                    queue.room.wait()
                if queue.stopped:
                    return
            try:
                # Without the lock: a read may take seconds, in which workers and consumer must go on.
                item = next(source)
            except StopIteration:
                break
            if without_work:
                queue.finish(number, item, None)
            else:
                with queue.lock:
                    if queue.stopped:
                        return
                    queue.todo.append((number, item))
                    queue.work.notify()
            del item  # or it would stay in memory while this thread waits for room
            number += 1
    except BaseException as error:
        # The error takes the place of the item that could not be read: it is raised after all items before it.
        queue.finish(number, None, error)
        number += 1
    finally:
        # In this thread and not in `close`: a generator that another thread is executing cannot be closed.
        close = getattr(source, "close", None)  # generators close their files here
        if close is not None:
            close()
        with queue.lock:
            queue.end = number
            queue.work.notify_all()
            queue.ready.notify_all()


def _work(queue: _Queue, work: Callable[[Any], Any]) -> None:
    """A worker's thread: processes items until the source is exhausted and none is left."""
    _lower_priority()
    while True:
        with queue.lock:
            while not queue.todo and queue.end is None and not queue.stopped:
                queue.work.wait()
            if queue.stopped or not queue.todo:
                return
            number, item = queue.todo.popleft()
        try:
            value = work(item)
        # Every error must become a result: if this thread ended without one, the consumer would wait for ever.
        except BaseException as error:
            queue.finish(number, None, error)
        else:
            queue.finish(number, value, None)
            del value
        del item  # neither item nor value may stay in memory while this thread waits
