"""Which products of features are released, and how released numbers become one symmetric matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.specification.atoms import Atoms
from dpstats.specification.objectives import Entries


@dataclass(frozen=True, slots=True)
class Pairs:
    """The released sums of an objective over d features and a response (zone: public).

    Attributes
    ----------
    left, right : ndarray of int
        Shape (R,): the pair of each released sum, the response at d; -1 for the number of complete rows.
    atom : ndarray of int
        Shape (R,): atom of each released sum; both orders of a pair share one, as their average.
    atoms : Atoms
        One per unordered pair, and the count.
    """

    left: NDArray[np.intp]
    right: NDArray[np.intp]
    atom: NDArray[np.intp]
    atoms: Atoms

    @property
    def response(self) -> int:
        """Position of the response."""
        return len(self.atoms.index) - 1

    def spread(self, products: float, cross: float, squares: float, count: float) -> NDArray[np.float64]:
        """Return one number per released sum, by its kind, shape (R,)."""
        kinds = [self.left < 0, self.left == self.response, self.right == self.response]
        return np.select(kinds, [count, squares, cross], products)

    def units(self, box: float) -> NDArray[np.float64]:
        """Return the size of each atom's product in units of the box, shape (K,): box**2, box or 1."""
        kinds = [self.atoms.left < 0, self.atoms.left == self.response, self.atoms.right == self.response]
        return np.select(kinds, [1.0, 1.0, box], box**2)

    def select(self, products: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Return the sums to release from the matrix of all products, in its zone, shape (R,)."""
        return np.where(self.left < 0, np.int64(count), products[self.left, self.right])

    def average(self, released: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return one number per atom, shape (K,)."""
        return np.bincount(self.atom, released) / np.bincount(self.atom)

    def average_variances(self, variances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the variance of each atom's average of independent numbers, shape (K,)."""
        return np.bincount(self.atom, variances) / np.bincount(self.atom) ** 2


def pairs_of(d: int, entries: Entries, intercept: int, *, squares: bool = True) -> Pairs:
    """List the sums of an objective over d features.

    Parameters
    ----------
    d : int
        Number of features.
    entries : {"triangle", "full"}
        Pairs of features j <= k, or all ordered pairs.
    intercept : int
        Position of the feature that is constant, whose square counts the complete rows; -1 adds the count.
    squares : bool
        False for a response that is always -1 or +1: its squares add up to the count.
    """
    left, right = (side[: None if squares else -1] for side in np.triu_indices(d + 1))
    index = np.zeros((d + 1, d + 1), dtype=np.int32)
    index[left, right] = index[right, left] = np.arange(len(left))
    count = int(index[intercept, intercept]) if intercept >= 0 else len(left)
    index[d, d] = index[d, d] if squares else count
    own = [-1] if intercept < 0 else []
    atoms = Atoms(index, np.append(left, own).astype(np.intp), np.append(right, own).astype(np.intp), count, False)
    if entries == "full":
        lower = np.tril_indices(d, -1)
        left, right = np.append(left, lower[0]), np.append(right, lower[1])
    return Pairs(
        np.append(left, own).astype(np.intp),
        np.append(right, own).astype(np.intp),
        np.append(index[left, right], [count] if own else []).astype(np.intp),
        atoms,
    )
