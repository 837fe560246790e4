"""Noisy counts of a huge histogram above a threshold, without visiting the empty cells: simulation only."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.release.noise import SimulatedNoise
from dpstats.release.release import read_closed


class Counts(Protocol):
    """Cells that occur, with their counts."""

    @property
    def cells(self) -> NDArray[np.int64]:
        """Increasing cell numbers."""

    @property
    def counts(self) -> NDArray[np.int64]:
        """Their counts."""


@dataclass(frozen=True, slots=True)
class WeightedCells:
    """A sample of cells with weights (zone: released).

    Attributes
    ----------
    cells : ndarray of int64
        Shape (s,).
    weights : ndarray
        Shape (s,), non-negative.
    """

    cells: NDArray[np.int64]
    weights: NDArray[np.float64]


def filter_and_sample(
    statistic: Callable[[], Counts], n_cells: int, scale: float, threshold: int, size: int, noise: SimulatedNoise
) -> WeightedCells:
    """Draw two-sided geometric noise, keep counts of at least `threshold`, and take a priority sample of them.

    Parameters
    ----------
    statistic : callable
        Reads the records and returns the cells that occur.
    n_cells : int
        Number of cells, empty ones included.
    scale : float
        alpha = exp(-1 / scale) is the ratio of the geometric law.
    threshold : int
        At least 1.
    size : int
        Size of the sample.
    noise : SimulatedNoise
        The floating-point draws below are not exact, so there is no real twin.

    Notes
    -----
    Cormode, Procopiuc, Srivastava and Tran 2012. The number of empty cells that would pass is binomial with
    probability alpha^threshold / (1 + alpha), the cells are uniform among the empty ones, and their noisy counts are
    threshold plus a geometric variable: the same law as noise in every cell. A priority sample keeps the cells with
    the largest weight / uniform; max(weight, the next largest) is unbiased for sums of weights.

    Raises
    ------
    ReleaseError
        If reading the records fails.
    """
    exact = read_closed(statistic)
    rng = noise.generator
    alpha = math.exp(-1 / scale)
    noisy = exact.counts + rng.geometric(1 - alpha, len(exact.counts)) - rng.geometric(1 - alpha, len(exact.counts))
    passing = noisy >= threshold
    empty = _empty_cells(exact.cells, n_cells, alpha**threshold / (1 + alpha), rng)
    cells = np.concatenate([exact.cells[passing], empty])
    weights = np.concatenate([noisy[passing], threshold + rng.geometric(1 - alpha, len(empty)) - 1]).astype(float)
    if len(cells) <= size:
        return WeightedCells(cells, weights)
    priority = weights / (1 - rng.random(len(weights)))
    order = np.argsort(priority)[::-1]
    kept = order[:size]
    return WeightedCells(cells[kept], np.maximum(weights[kept], priority[order[size]]))


def _empty_cells(
    occupied: NDArray[np.int64], n_cells: int, probability: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Choose the empty cells that pass: a binomial number of distinct ones, uniformly."""
    wanted = int(rng.binomial(n_cells - len(occupied), probability))
    found: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    while len(found) < wanted:
        more = rng.integers(0, n_cells, 2 * (wanted - len(found)) + 16)
        more = more[~np.isin(more, occupied)]
        _, first = np.unique(np.concatenate([found, more]), return_index=True)
        found = np.concatenate([found, more])[np.sort(first)]
    return found[:wanted]
