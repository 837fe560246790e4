"""Public grids on which the range of an undeclared column is looked for (methods-2, section 3).

Two levels of histograms. The first has the edges 0 and +-2^j, j = -20 .. 40, and an outer bin each way up to +-2^41, so
that it holds any number; the second has 32 equal cells over the hull of the first one's significant bins. A record
moves one unit from one bin to another in each column, so that the counts of P columns change by 2 P in L1 and by
sqrt(2 P) in L2 at most, at each level, whatever the grids; an incomplete entry is in no bin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.specification.schema import Continuous

LOWEST, HIGHEST = -20, 40
OUTERMOST = 2.0 ** (HIGHEST + 1)
EDGES = np.concatenate(
    [
        -(2.0 ** np.arange(HIGHEST + 1, LOWEST - 1, -1)),
        [0.0],
        2.0 ** np.arange(LOWEST, HIGHEST + 2),
    ]
)
"""First level: -2^41, -2^40, .., -2^-20, 0, 2^-20, .., 2^41."""
CELLS = 32
FALSE_ALARMS = 0.004, 0.05
"""beta of the two levels: each takes an empty bin for a filled one with probability beta / 2 at most.

A false bin of the first level can be far beyond the data and leave a fit without any signal; one of the second level
only makes bounds somewhat wide.
"""
WIDEN = 1.5
NARROWEST = 2.0**-18
ANYTHING = Continuous(-OUTERMOST, OUTERMOST)
"""What is known of an undeclared column; larger numbers count as the largest."""
UNKNOWN = Continuous(-1.0, 1.0)
"""Bounds of a column of which nothing was found."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Edges of the bins of one column (zone: public or released).

    Attributes
    ----------
    edges : ndarray
        Increasing, shape (K + 1,).
    """

    edges: NDArray[np.float64]

    @property
    def n_bins(self) -> int:
        """K."""
        return len(self.edges) - 1

    def number(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Return the bin of each value, K for values outside, shape (n,)."""
        found = np.searchsorted(self.edges, values, side="right") - 1
        found = np.where(values == self.edges[-1], self.n_bins - 1, found)
        return np.where((found < 0) | (found >= self.n_bins), self.n_bins, found)


FIRST = Grid(EDGES)


def second_grid(counts: NDArray[np.float64], threshold: float) -> Grid:
    """Return the second level's cells: over the hull of the significant bins, one bin more each way.

    Parameters
    ----------
    counts : ndarray
        Noisy counts of the first level, shape (K,).
    threshold : float
        Above which a bin is significant.
    """
    found = np.flatnonzero(counts > threshold)
    if not len(found):
        return Grid(np.linspace(UNKNOWN.lower, UNKNOWN.upper, CELLS + 1))
    low, high = max(found[0] - 1, 0), min(found[-1] + 2, FIRST.n_bins)
    return Grid(np.linspace(EDGES[low], EDGES[high], CELLS + 1))


def bounds_of(found_any: bool, counts: NDArray[np.float64], grid: Grid, threshold: float) -> Continuous | None:
    """Return bounds from the noisy counts of the second level; None if nothing was found.

    Parameters
    ----------
    found_any : bool
        Whether a bin of the first level was significant.
    counts : ndarray
        Noisy counts of the second level, shape (32,).
    grid : Grid
        The second level's cells.
    threshold : float
        Above which a cell is significant.
    """
    if not found_any:
        return None
    found = np.flatnonzero(counts > threshold)
    if len(found):
        low, high = float(grid.edges[found[0]]), float(grid.edges[found[-1] + 1])
        middle, half = (low + high) / 2, WIDEN * (high - low) / 2
        low, high = middle - half, middle + half
    else:
        low, high = float(grid.edges[0]), float(grid.edges[-1])
    if high - low < 2 * NARROWEST:
        return None
    return round_outward(low, high)


def round_outward(low: float, high: float) -> Continuous:
    """Round a range outward, to two significant digits of half its width.

    Examples
    --------
    >>> round_outward(1901.3, 2068.9)
    Continuous(lower=1901.0, upper=2069.0)
    """
    digits = 1 - math.floor(math.log10((high - low) / 2))
    unit = Fraction(10) ** -digits
    return Continuous(float(math.floor(Fraction(low) / unit) * unit), float(math.ceil(Fraction(high) / unit) * unit))


def threshold(n_columns: int, level: int, scale: float, law: str) -> float:
    """Return t, above which a noisy count is significant.

    Parameters
    ----------
    n_columns : int
        P.
    level : int
        0 for the first level, 1 for the second.
    scale : float
        Of the Laplace noise, or standard deviation of the Gaussian noise, in rows.
    law : {"laplace", "gaussian"}
        Law of the noise.
    """
    odds = FALSE_ALARMS[level] / ((FIRST.n_bins, CELLS)[level] * n_columns)
    return scale * (-math.log(odds) if law == "laplace" else -float(ndtri(odds / 2)))


def widened(found: Continuous) -> Sequence[Continuous]:
    """Return bounds and safer, wider ones: with 0 in them, and symmetric about it."""
    size = max(abs(found.lower), abs(found.upper))
    return found, Continuous(min(found.lower, 0.0), max(found.upper, 0.0)), Continuous(-size, size)
