"""A second thread where it helps; one thread does it all where no second can be started, as in a program that ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

T = TypeVar("T")
_END = object()


def both(first: Callable[[], T], second: Callable[[], T]) -> tuple[T, T]:
    """Return what two functions return, run at the same time."""
    with ThreadPoolExecutor(1, "dpstats") as pool:
        other = _started(pool, first)
        mine = second()
        return (first() if other is None else other.result()), mine


def one_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield from an iterator while the next item is fetched in another thread; at most two are held."""

    def fetch() -> T | object:
        return next(items, _END)

    with ThreadPoolExecutor(1, "dpstats") as pool:
        coming = _started(pool, fetch)
        while (item := fetch() if coming is None else coming.result()) is not _END:
            coming = _started(pool, fetch)
            yield cast(T, item)


def _started(pool: ThreadPoolExecutor, function: Callable[[], T]) -> Future[T] | None:
    try:
        return pool.submit(function)
    except RuntimeError:
        return None
