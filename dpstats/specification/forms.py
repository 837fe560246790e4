"""Linear forms of coded rows whose squares are summed: single ones, and sums of two of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, repr=False)
class Forms:
    """Forms l'z of a coded row z (zone: released).

    Attributes
    ----------
    single : ndarray
        Rows l_j, shape (m, D).
    pairs : ndarray of int
        Rows (j, k), shape (P, 2): l_j + l_k is a form too. Its square, less those of its parts, is twice the product
        (l_j'z) (l_k'z).
    """

    single: NDArray[np.float64]
    pairs: NDArray[np.intp]

    @classmethod
    def of(cls, single: NDArray[np.float64], *, paired: bool = False) -> Forms:
        """Return forms and, if asked for, all sums of two of them."""
        pairs = list(combinations(range(len(single)), 2)) if paired else []
        return cls(single, np.array(pairs, dtype=np.intp).reshape(-1, 2))

    def __len__(self) -> int:
        return len(self.single) + len(self.pairs)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """All forms, shape (m + P, D)."""
        return np.vstack([self.single, self.single[self.pairs[:, 0]] + self.single[self.pairs[:, 1]]])

    def after(self, first: NDArray[np.float64]) -> Forms:
        """Return the forms with others, shape (k, D), before them, which are in no pair."""
        return Forms(np.vstack([first, self.single]), self.pairs + len(first))

    def from_place(self, k: int) -> Forms:
        """Return what `after` was given, from which k others come first."""
        return Forms(self.single[k:], self.pairs - k)

    def squares(self, product: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
        """Yield the square of each form, given what makes l'z of all rows from l; each row's by itself."""
        found = [product(form) for form in self.single]
        yield from (value**2 for value in found)
        yield from ((found[j] + found[k]) ** 2 for j, k in self.pairs.tolist())

    def sums(self, products: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what sums of squares are, given those of products of two single forms, shape (m, m)."""
        own, (j, k) = np.diag(products), self.pairs.T
        return np.append(own, own[j] + own[k] + 2 * products[j, k])

    def products(self, sums: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sums of products of two single forms, shape (m, m): the inverse of `sums` if all are paired."""
        own, (j, k) = sums[: len(self.single)], self.pairs.T
        products = np.diag(own)
        products[j, k] = products[k, j] = (sums[len(self.single) :] - own[j] - own[k]) / 2
        return products
