"""The one door between private and public: charge, noise, wrap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ReleaseError
from dpstats.records.levels import Level, LevelCounts
from dpstats.release.noise import Law, NoiseSource

T = TypeVar("T")
Draw = Callable[[], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class NoisePlan:
    """Noise of a vector of integer statistics, fixed before a record is read (zone: public).

    Attributes
    ----------
    law : {"laplace", "gaussian", "max_norm", "spherical", "symmetric"}
        Law of the noise.
    scales : ndarray
        Shape (K,), lattice units: s of discrete Gaussian noise, 1 / rate of all other laws.
    distances : ndarray
        Shape (K,), lattice units: largest change, in the law's norm, of the group of entries that share a scale.
    """

    law: Law
    scales: NDArray[np.float64]
    distances: NDArray[np.float64]


def release_integers(
    statistic: Callable[[], NDArray[np.int64]], plan: NoisePlan, source: NoiseSource
) -> NDArray[np.int64]:
    """Read the data once and return the noisy statistic.

    Parameters
    ----------
    statistic : callable
        Reads the records and returns exact integers, shape (K,); not called before the noise is ready.
    plan : NoisePlan
        Scales per entry.
    source : NoiseSource
        Real, simulated or no noise.

    Returns
    -------
    ndarray of int64
        Released, shape (K,); all noise in one batch.

    Raises
    ------
    ReleaseError
        If reading the records fails for any reason (a full memory, a broken file); says no more than that.
    """
    add_noise = source.prepare(plan.law, plan.scales, plan.distances)
    return read_closed(lambda: add_noise(statistic()))


def release_until(
    statistic: Callable[[], NDArray[np.int64]],
    plan: NoisePlan,
    source: NoiseSource,
    accept: Callable[[NDArray[np.int64]], bool],
) -> NDArray[np.int64]:
    """Read the data once and draw noise again and again until the noisy statistic is acceptable.

    Parameters
    ----------
    statistic, plan, source
        As for `release_integers`.
    accept : callable
        A rule on the noisy statistic alone.

    Returns
    -------
    ndarray of int64
        The first accepted statistic; costs twice what one draw costs, in pure epsilon, however many there were.

    Raises
    ------
    ReleaseError
        If reading the records fails for any reason.

    Notes
    -----
    There is no cap: a fallback after T draws would betray that T draws failed. The running time is not protected.
    Without noise the statistic is returned as it is.
    """
    add_noise = source.prepare(plan.law, plan.scales, plan.distances)
    draw = _drawing(read_closed(statistic), add_noise)
    noisy = draw()
    while source.label != "none" and not accept(noisy):
        noisy = draw()
    return noisy


def release_levels(
    statistic: Callable[[], LevelCounts], scale: float, threshold: int, source: NoiseSource
) -> list[list[Level]]:
    """Read the data once and return the values whose counts, with noise, reach a threshold; nothing else is released.

    Parameters
    ----------
    statistic : callable
        Reads the records and returns exact counts of what occurs: how many values there are is private.
    scale : float
        Of the discrete Laplace noise on each count.
    threshold : int
        What a noisy count must reach.
    source : NoiseSource
        Real, simulated or no noise.

    Returns
    -------
    list of list
        These values, per column, in no particular order.

    Raises
    ------
    ReleaseError
        If reading the records fails for any reason.

    Notes
    -----
    Running time and memory grow with the number of distinct values; they are not protected.
    """
    return read_closed(lambda: _frequent(statistic(), scale, threshold, source))


def _frequent(found: LevelCounts, scale: float, threshold: int, source: NoiseSource) -> list[list[Level]]:
    exact = np.concatenate(found.counts)
    noisy = source.prepare("laplace", np.full(len(exact), scale), np.ones(len(exact)))(exact)
    columns = np.split(noisy, np.cumsum([len(counts) for counts in found.counts])[:-1])
    return [
        [level for level, count in zip(levels, counts.tolist(), strict=True) if count >= threshold]
        for levels, counts in zip(found.levels, columns, strict=True)
    ]


def _drawing(exact: NDArray[np.int64], add_noise: Callable[[NDArray[np.int64]], NDArray[np.int64]]) -> Draw:
    """Keep the exact statistic out of the frames of a loop that may be interrupted."""
    return lambda: read_closed(lambda: add_noise(exact))


def read_closed(statistic: Callable[[], T]) -> T:
    """Return a statistic of the records; no exception, message or frame of the private zone gets out.

    Raises
    ------
    ReleaseError
        If reading failed for any reason.
    """
    found = _attempt(statistic)
    if found is None:
        raise ReleaseError("the table could not be read; nothing was released, but count the budget as spent")
    if isinstance(found, _Stopped):
        raise found.kind
    return found


@dataclass(frozen=True, slots=True)
class _Stopped:
    """An interruption by the user or the system, without the frames that it passed through."""

    kind: type[BaseException]


def _attempt(statistic: Callable[[], T]) -> T | _Stopped | None:
    try:
        return statistic()
    except (KeyboardInterrupt, SystemExit) as stop:
        return _Stopped(type(stop))
    except BaseException:
        return None
