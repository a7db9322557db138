"""Do something for many items in threads that are left behind where the program ends first.

Those of `concurrent.futures` are waited for: nothing but Ctrl-C again would end a build then.
"""

import contextlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_threads(act: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield `act(item)` for each item in order, or raise what it raises."""
    waiting: deque[tuple[T, Future[R]]] = deque((item, Future()) for item in items)
    results = [result for _, result in waiting]
    for _ in range(os.cpu_count() or 1):
        Thread(target=_work, args=(act, waiting), daemon=True).start()
    for result in results:
        yield result.result()


def _work(act: Callable[[T], R], waiting: deque[tuple[T, Future[R]]]) -> None:
    with contextlib.suppress(IndexError):  # nothing is waiting any more
        while True:
            item, result = waiting.popleft()
            try:
                result.set_result(act(item))
            except BaseException as error:  # noqa: BLE001 - for whoever asks for the result
                result.set_exception(error)
