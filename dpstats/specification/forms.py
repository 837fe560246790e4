"""Linear forms of coded rows whose squares are summed: one for each coefficient, and sums of pairs of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

MOST_PAIRED = 100
"""Of so many coefficients pairs are measured: beyond, there are too many to be read in reasonable time."""


@dataclass(frozen=True, slots=True, repr=False)
class Forms:
    """Forms l'z of a coded row z (zone: released).

    Attributes
    ----------
    single : ndarray
        Rows l_j, shape (m, D).
    scales : ndarray
        s_j, shape (m,).
    pairs : ndarray of int
        Rows (j, k), shape (P, 2): s_j l_j + s_k l_k is a form too. Its square, less those of its parts, is twice the
        product s_j s_k (l_j'z) (l_k'z).
    """

    single: NDArray[np.float64]
    scales: NDArray[np.float64]
    pairs: NDArray[np.intp]

    @classmethod
    def of(cls, single: NDArray[np.float64], scales: NDArray[np.float64] | None = None) -> Forms:
        """Return forms and, if scales are given and they are few enough, all sums of two of them."""
        m = len(single)
        paired = scales is not None and m <= MOST_PAIRED
        pairs = np.array(list(combinations(range(m), 2)) if paired else [], dtype=np.intp).reshape(-1, 2)
        return cls(single, np.ones(m) if scales is None else scales, pairs)

    def __len__(self) -> int:
        return len(self.single) + len(self.pairs)

    @property
    def combine(self) -> NDArray[np.float64]:
        """All forms as combinations of the single ones, shape (m + P, m)."""
        scaled = np.diag(self.scales)
        return np.vstack([np.eye(len(scaled)), scaled[self.pairs[:, 0]] + scaled[self.pairs[:, 1]]])

    @property
    def matrix(self) -> NDArray[np.float64]:
        """All forms, shape (m + P, D)."""
        return np.asarray(self.combine @ self.single)

    def without_pairs(self) -> Forms:
        """Return the single forms alone."""
        return Forms(self.single, self.scales, self.pairs[:0])

    def after(self, first: NDArray[np.float64]) -> Forms:
        """Return the forms with others, shape (k, D), before them, which are in no pair."""
        k = len(first)
        return Forms(np.vstack([first, self.single]), np.append(np.ones(k), self.scales), self.pairs + k)

    def from_place(self, k: int) -> Forms:
        """Return what `after` was given, from which k others come first."""
        return Forms(self.single[k:], self.scales[k:], self.pairs - k)

    def squares(self, product: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
        """Yield the square of each form, given what makes l'z of all rows from l; each row's by itself."""
        found = [product(form) for form in self.single]
        yield from (value**2 for value in found)
        scaled = [scale * value for scale, value in zip(self.scales, found, strict=True)] if len(self.pairs) else []
        yield from ((scaled[j] + scaled[k]) ** 2 for j, k in self.pairs.tolist())
