"""Inverses of noisy matrices, and what a singular one leaves unidentified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from dpstats.inference.estimates import LeastSquares

SINGULAR = 1e-8
SMALLEST = 1e-30
IDENTIFIED = 1e-6


@dataclass(frozen=True, slots=True)
class Spectrum:
    """A symmetric matrix by its eigenvalues and eigenvectors (zone: released).

    Attributes
    ----------
    matrix : ndarray
        Shape (q, q).
    values : ndarray
        Shape (q,), in ascending order.
    vectors : ndarray
        Shape (q, q), one a column.
    """

    matrix: NDArray[np.float64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: NDArray[np.float64]) -> Spectrum:
        """Take a matrix apart that is symmetric up to rounding."""
        symmetric = (matrix + matrix.T) / 2
        return cls(symmetric, *np.linalg.eigh(symmetric))

    @property
    def positive_part(self) -> NDArray[np.float64]:
        """The matrix without its negative eigenvalues."""
        return (self.vectors * np.maximum(self.values, 0.0)) @ self.vectors.T


@dataclass(frozen=True, slots=True)
class Inverse:
    """Inverse of a symmetric matrix that may be singular (zone: released).

    Attributes
    ----------
    inverse : ndarray
        Shape (q, q).
    singular : bool
        True if some eigenvalue is 0 for all practical purposes.
    null : ndarray or None
        Without noise, the directions of those eigenvalues, which the inverse leaves out; shape (q, k).
    """

    inverse: NDArray[np.float64]
    singular: bool
    null: NDArray[np.float64] | None


def invert(spectrum: Spectrum, *, noisy: bool, floor: float = 0.0) -> Inverse:
    """Invert a noisy matrix as it is, and one without noise on what it identifies.

    Parameters
    ----------
    spectrum : Spectrum
        Of the matrix.
    noisy : bool
        Whether the matrix has noise.
    floor : float
        Eigenvalues up to it count as 0, beside those up to 1e-8 of the largest.
    """
    eigenvalues, vectors = spectrum.values, spectrum.vectors
    least = max(SINGULAR * np.abs(eigenvalues).max(), floor)
    small = np.abs(eigenvalues) <= least
    if not noisy:
        kept = vectors[:, ~small]
        null = vectors[:, small] if small.any() else None
        return Inverse((kept / eigenvalues[~small]) @ kept.T, bool(small.any()), null)
    usable = np.where(small, np.copysign(max(least, SMALLEST), eigenvalues), eigenvalues)
    return Inverse((vectors / usable) @ vectors.T, bool(small.any()), None)


def is_identified(fit: LeastSquares, contrast: NDArray[np.float64]) -> bool:
    """Tell whether a contrast, in the basis, has no part in what the fit does not identify.

    Parameters
    ----------
    fit : LeastSquares
        The fit.
    contrast : ndarray
        Shape (q,).
    """
    if not fit.singular:
        return True
    if fit.null is None:
        return False
    return bool(np.abs(fit.null.T @ contrast).max() <= IDENTIFIED * np.linalg.norm(contrast))


def identified_combinations(contrasts: NDArray[np.float64], null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the combinations of contrasts, in the basis, that have no part in what a fit without noise leaves open.

    Parameters
    ----------
    contrasts : ndarray
        Shape (m, q).
    null : ndarray
        What is left open, shape (q, k).

    Returns
    -------
    ndarray
        Orthonormal rows, shape (l, m); the identity if all contrasts are identified.
    """
    left, sizes, _ = np.linalg.svd(contrasts @ null)
    n_open = int((sizes > IDENTIFIED * np.linalg.norm(contrasts, axis=1).max()).sum())
    return np.asarray(left[:, n_open:].T) if n_open else np.eye(len(contrasts))
