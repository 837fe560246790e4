"""Released second moments with a known noise law, and the linear forms of them that all inference uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.critical_values import Law, standard_law


class Draws(Protocol):
    """Where draws from a known law come from, such as a numpy Generator."""

    def laplace(self, *, size: tuple[int, ...]) -> Any:
        """Draw Laplace variables of scale 1."""

    def normal(self, *, size: tuple[int, ...]) -> Any:
        """Draw standard normal variables."""


@dataclass(frozen=True, slots=True)
class NoisyMoments:
    """Noisy sums of all products of coded columns (zone: released).

    Attributes
    ----------
    values : ndarray
        Shape (K,), one per atom, in coded units; reconciled if `gain` is given.
    variances : ndarray
        Known variance of each atom's own noise, shape (K,); the noises are independent.
    law : {"laplace", "gaussian"}
        Law of the noise.
    index : ndarray of int
        Shape (D, D): atom of each product, -1 for a structural zero. The last coded column is the response.
    count : int
        Atom of the number of complete rows.
    gain, identities : ndarray or None
        Shapes (K, r) and (r, K): the noise of the values is (I - gain @ identities) times the atoms' own noises.
    """

    values: NDArray[np.float64]
    variances: NDArray[np.float64]
    law: Literal["laplace", "gaussian"]
    index: NDArray[np.int32]
    count: int
    gain: NDArray[np.float64] | None = None
    identities: NDArray[np.float64] | None = None

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The noisy moment matrix M, shape (D, D)."""
        return np.where(self.index >= 0, self.values[self.index], 0.0)

    @property
    def n_complete(self) -> float:
        """Noisy number of complete rows."""
        return float(self.values[self.count])

    def forms(self, lefts: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the values' coefficients h(left, right) in left @ M @ right, shape (m, K), one row per left vector.

        Parameters
        ----------
        lefts : ndarray
            Shape (m, D), or (m, D - 1) for vectors that are zero at the response.
        right : ndarray
            Shape (D,) or (D - 1,).
        """
        rows, columns, atoms = self._entries(lefts.shape[1], len(right))
        weights = right[columns]
        return np.stack([np.bincount(atoms, left[rows] * weights, minlength=len(self.values)) for left in lefts])

    def _entries(self, n_left: int, n_right: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int32]]:
        """Return row, column and atom of the products that are not structurally zero; few among cells of a factor."""
        index = self.index[:n_left, :n_right]
        rows, columns = np.nonzero(index >= 0)
        return rows, columns, index[rows, columns]

    def paired_forms(self, lefts: NDArray[np.float64], rights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients h(left, right) for pairs of vectors, shapes (m, D) or (m, D - 1); shape (m, K)."""
        rows, columns, atoms = self._entries(lefts.shape[1], rights.shape[1])
        pairs = zip(lefts, rights, strict=True)
        return np.stack([np.bincount(atoms, a[rows] * b[columns], minlength=len(self.values)) for a, b in pairs])

    def weighted_forms(self, weights: NDArray[np.float64], rights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over m of ``noise_of(forms(lefts, rights[m])) @ weights[m]``, the unit vectors as lefts.

        Parameters
        ----------
        weights : ndarray
            Shape (m, K).
        rights : ndarray
            Shape (m, D - 1).

        Returns
        -------
        ndarray
            Shape (D - 1,).
        """
        if self.gain is not None and self.identities is not None:
            weights = weights - (weights @ self.identities.T) @ self.gain.T
        size = rights.shape[1]
        rows, columns, atoms = self._entries(size, size)
        total = np.zeros(size)
        for weight, right in zip(weights, rights, strict=True):
            total += np.bincount(rows, weight[atoms] * right[columns], minlength=size)
        return total

    def noise_of(self, forms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients of linear forms of the values on the atoms' own noises, shape (..., K).

        The noise of ``form @ values`` is ``noise_of(form) @ eta``, its variance ``noise_of(form)**2 @ variances``.
        """
        if self.gain is None or self.identities is None:
            return forms
        return forms - (forms @ self.gain) @ self.identities

    @property
    def is_normal(self) -> bool:
        """True if all noise is normal, or there is none."""
        return self.law == "gaussian" or not self.variances.any()

    def standard_law(self, form: NDArray[np.float64], sampling: float) -> Law:
        """Return the law of a linear form of the noises plus a normal of variance `sampling`, standardised.

        Parameters
        ----------
        form : ndarray
            Coefficients on the atoms' own noises, shape (K,).
        sampling : float
            Variance of the normal part.
        """
        return standard_law(form, self.variances, sampling, self.law)

    def draw_noise(self, rng: Draws, size: int, used: NDArray[np.intp]) -> NDArray[np.float64]:
        """Draw the noises of some atoms from their known law, shape (size, len(used))."""
        shape = (size, len(used))
        noise = rng.laplace(size=shape) / np.sqrt(2) if self.law == "laplace" else rng.normal(size=shape)
        return np.asarray(noise * np.sqrt(self.variances[used]))

    def variance_of(self, form: NDArray[np.float64]) -> float:
        """Return the noise variance of one linear form of the values, shape (K,)."""
        return float(self.variances @ self.noise_of(form) ** 2)
