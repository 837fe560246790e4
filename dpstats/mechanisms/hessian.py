"""A noisy weighted Gram matrix of the predictors at a released parameter: the Hessian of a loss.

public    blocks, atoms, sensitivity, scales: the plan, with its cost recomputed from the scales
private   rows -> weight in [0, bound] times products, exact integers -> one sum per atom
release   one noise draw per atom
public    a symmetric matrix with a known noise law
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.mechanisms.lattice import TINY, TOO_SMALL
from dpstats.mechanisms.ssp import stage_cost
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.records.predictors import Table, sum_weighted_products
from dpstats.release.noise import NoiseSource, gaussian_scale, laplace_scale
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.atoms import build_atoms
from dpstats.specification.predictors import Predictors
from dpstats.specification.sensitivity import (
    NoiseKind,
    alias_factor,
    atom_weights,
    l1_sensitivity,
    l2_sensitivity,
    row_norms,
)

MOST_BITS, FEWEST_BITS = 14, 6
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class HessianPlan:
    """The release of a weighted Gram matrix, fixed before a record is read (zone: public).

    Attributes
    ----------
    law : {"laplace", "gaussian"}
        Law of the noise.
    index : ndarray of int
        Shape (q, q): atom of each entry, -1 for a structural zero.
    left, right : ndarray of int
        Shape (K,): the entry from which each atom is computed.
    unit : float
        One integer step in units of the matrix.
    bits : int
        Weights and rows are multiples of 2**-bits.
    noise : NoisePlan
        Scales in integer steps.
    variances : ndarray
        Noise variance per atom, shape (K,); 0 without noise.
    cost : Budget
        epsilon of Laplace noise, rho = mu^2 / 2 of Gaussian noise.
    """

    law: Literal["laplace", "gaussian"]
    index: NDArray[np.int32]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    unit: float
    bits: int
    noise: NoisePlan
    variances: NDArray[np.float64]
    cost: Budget

    @property
    def typical_sd(self) -> float:
        """Root mean square of the noise in an entry."""
        return float(np.sqrt(self.variances.mean()))

    def matrix(self, atoms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the symmetric matrix of one number per atom, shape (q, q)."""
        return np.where(self.index >= 0, atoms[self.index], 0.0)


def product_bits(n_rows: int, scale: float) -> int:
    """Return the bits of weights and rows such that sums of their products, and noise on them, stay below 2**61.

    Parameters
    ----------
    n_rows : int
        Public length of the table.
    scale : float
        Of the noise, in coded units.

    Raises
    ------
    BudgetError
        If too few bits are left.
    """
    for_sums = (61 - math.ceil(math.log2(max(n_rows, 2)))) // 3
    for_noise = math.floor((56 - math.log2(max(scale, 1.0))) / 3) if math.isfinite(scale) else 0
    bits = min(MOST_BITS, for_sums, for_noise)
    if bits < FEWEST_BITS:
        raise BudgetError(TOO_SMALL)
    return bits


def plan_hessian(
    predictors: Predictors, bound: float, law: NoiseKind, budget: Budget, share: float, n_rows: int
) -> HessianPlan:
    """Plan the release of sum_i w_i z_i z_i' for weights in [0, bound].

    Parameters
    ----------
    predictors : Predictors
        The model's columns.
    bound : float
        Largest weight of a row.
    law : {"laplace", "gaussian"}
        Law of the noise.
    budget : Budget
        Of this stage.
    share : float
        Of the stage's epsilon (Laplace) or mu^2 (Gaussian).
    n_rows : int
        Public length of the table.

    Raises
    ------
    BudgetError
        If the noise would not fit into 64-bit integers.

    Notes
    -----
    For fixed rows the weighted change of `dpstats.specification.sensitivity` is convex in the two weights (w, w*) in
    [0, bound]^2, so it is largest at a corner: (bound, bound) is its theorems scaled by bound, (bound, 0) is a complete
    row against an incomplete one, which they cover as well. Columns that are left out only make it smaller.
    """
    blocks, keep = predictors.blocks, predictors.keep
    atoms = build_atoms(blocks, predictors.coding.signs if predictors.features is None else ())
    ones = np.ones(len(blocks))
    everywhere = atoms.index[np.ix_(keep, keep)]
    used, first, inverse = np.unique(everywhere, return_index=True, return_inverse=True)
    offset = int(used[0] < 0)
    index = (inverse.reshape(everywhere.shape) - offset).astype(np.int32)
    left, right = np.divmod(first[offset:], len(keep))
    weights = atom_weights(blocks, atoms, ones, law)[used[offset:]]
    strength = stage_strength(budget, law, share)
    if strength < TINY:
        raise BudgetError(TOO_SMALL)
    per_unit = 1 / (strength * (weights if law == "laplace" else np.sqrt(weights)))

    def size(bits: int) -> float:
        """Return the sensitivity; rounding twice moves a row a little more than one rounding allows for."""
        norms = row_norms(blocks, ones, "laplace", bits - 2)
        total = l1_sensitivity(norms) if law == "laplace" else l2_sensitivity(norms)
        return total * alias_factor(blocks, atoms, bits - 1)

    bits = product_bits(n_rows, size(FEWEST_BITS) * float(per_unit.max()))
    reach = size(bits) * 8.0**bits
    scales = laplace_scale(reach * per_unit) if law == "laplace" else gaussian_scale(reach * per_unit)
    unit = bound / 8.0**bits
    variances = (2 if law == "laplace" else 1) * (scales * unit) ** 2
    return HessianPlan(
        law,
        index,
        left.astype(np.intp),
        right.astype(np.intp),
        unit,
        bits,
        NoisePlan(law, scales, reach / (weights if law == "laplace" else np.sqrt(weights))),
        variances if budget.is_private else np.zeros_like(variances),
        stage_cost(law, scales, weights, reach, budget),
    )


def release_hessian(
    plan: HessianPlan, table: Table, weight: Callable[[Vector, Vector], Vector], theta: Vector, noise: NoiseSource
) -> Vector:
    """Return one released number per atom, shape (K,).

    Parameters
    ----------
    plan : HessianPlan
        From `plan_hessian`.
    table : Table
        The rows; read only here.
    weight : callable
        Maps predictors eta and outcomes to weights in [0, 1], in units of the plan's bound.
    theta : ndarray
        The released parameter, shape (q,).
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    """
    released = release_integers(
        lambda: sum_weighted_products(table, weight, theta, plan.bits)[plan.left, plan.right], plan.noise, noise
    )
    return released.astype(np.float64) * plan.unit
