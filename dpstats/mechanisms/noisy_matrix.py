"""A symmetric matrix of weighted products with noise of the Frobenius norm: Algorithm 2 of Wang, Kifer and Lee (2019).

Their noise is spherical in all d^2 entries and then made symmetric; here it is spherical in the d (d + 1) / 2 entries
of a symmetric matrix, which has half the variance at the same cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.mechanisms.hessian import FEWEST_BITS, product_bits
from dpstats.mechanisms.lattice import TINY, TOO_SMALL
from dpstats.privacy.notions import Budget
from dpstats.records.predictors import Table, sum_weighted_products
from dpstats.release.noise import ROUNDING, NoiseSource, gaussian_scale, off_diagonals
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.predictors import Predictors
from dpstats.specification.sensitivity import row_norms

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MatrixPlan:
    """The release of sum_i w_i z_i z_i' for weights in [0, 1], fixed before a record is read (zone: public).

    Attributes
    ----------
    bits : int
        Weights and rows are multiples of 2**-bits.
    noise : NoisePlan
        Scales of the upper triangle in units of 2**(-3 bits).
    variances : ndarray
        Noise variance per entry of the triangle, shape (q (q + 1) / 2,); 0 without noise.
    cost : Budget
        epsilon of spherical noise, or rho of Gaussian noise.
    """

    bits: int
    noise: NoisePlan
    variances: Vector
    cost: Budget


def plan_matrix(predictors: Predictors, budget: Budget, n_rows: int) -> MatrixPlan:
    """Plan the release of a matrix.

    Parameters
    ----------
    predictors : Predictors
        The model's columns.
    budget : Budget
        Of this release: a pure epsilon, or rho.
    n_rows : int
        Public length of the table.

    Raises
    ------
    BudgetError
        If the noise would not fit into 64-bit integers.

    Notes
    -----
    ||w z z' - w* z* z*'||_F^2 = w^2 |z|^4 + w*^2 |z*|^4 - 2 w w* (z'z*)^2 <= 2 R2^2; for one column R2^2.
    """
    q = predictors.n_columns
    entries = np.array(off_diagonals(q * (q + 1) // 2), dtype=np.float64)
    strength = 1.0
    if budget.is_private:
        strength = budget.epsilon if budget.rho is None else math.sqrt(2 * budget.rho)  # type: ignore[assignment]
    if strength < TINY:
        raise BudgetError(TOO_SMALL)

    def size(bits: int) -> float:
        norms = row_norms(predictors.blocks, np.ones(len(predictors.blocks)), "laplace", bits - 2)
        return norms.r2 * (math.sqrt(2) if q > 1 else 1.0) * ROUNDING

    bits = product_bits(n_rows, size(FEWEST_BITS) / strength * math.sqrt(len(entries) + 40))
    reach = size(bits) * 8.0**bits
    unit = 8.0**-bits
    if budget.rho is None:
        scale = float(np.nextafter(reach / strength * ROUNDING, np.inf))
        plan = NoisePlan("symmetric", np.full(len(entries), scale), np.full(len(entries), reach))
        variances = (len(entries) + 1) * (scale * unit) ** 2 / entries
        cost = Budget(epsilon=reach / scale)
    else:
        scales = gaussian_scale(reach / strength / np.sqrt(entries))
        plan = NoisePlan("gaussian", scales, reach / np.sqrt(entries))
        variances = (scales * unit) ** 2
        cost = Budget(rho=reach**2 / float((scales**2 * entries).min()) / 2)
    private = budget.is_private
    return MatrixPlan(bits, plan, variances * private, cost if private else budget)


def release_matrix(
    plan: MatrixPlan, table: Table, weight: Callable[[Vector, Vector], Vector], theta: Vector, noise: NoiseSource
) -> Vector:
    """Return the released upper triangle, shape (q (q + 1) / 2,).

    Parameters
    ----------
    plan : MatrixPlan
        From `plan_matrix`.
    table : Table
        The rows; read only here.
    weight : callable
        Maps predictors eta and outcomes to weights in [0, 1].
    theta : ndarray
        The released parameter, shape (q,).
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    """
    triangle = np.triu_indices(len(theta))
    released = release_integers(
        lambda: sum_weighted_products(table, weight, theta, plan.bits)[triangle], plan.noise, noise
    )
    return released.astype(np.float64) * 8.0**-plan.bits


def triangle_index(q: int) -> NDArray[np.int32]:
    """Return the position in the upper triangle of each entry of a symmetric matrix, shape (q, q)."""
    index = np.zeros((q, q), dtype=np.int32)
    rows, columns = np.triu_indices(q)
    index[rows, columns] = index[columns, rows] = np.arange(len(rows))
    return index
