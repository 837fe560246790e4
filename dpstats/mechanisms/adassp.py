"""AdaSSP: noisy X'X and X'y with a ridge that adapts to the noisy smallest eigenvalue (Wang 2018), a strong baseline.

public    features on a box, a third of mu^2 for each of three Gaussian releases: the plan
private   rows -> features -> integer lattice -> exact X'X and X'y, smallest eigenvalue of X'X
release   one Gaussian draw per number
public    the ridge and the coefficients

Sensitivities for two rows of norm at most R = sqrt(d) B, and |u| <= 1. The smallest eigenvalue moves by at most the
spectral norm of x x' - y y', which is at most R^2 (Weyl), and by the error of the eigenvalue routine; X'X by at most
sqrt(2) R^2 in the Frobenius norm, because |x x' - y y'|^2 = |x|^4 + |y|^4 - 2 (x'y)^2; X'u by at most 2 R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.mechanisms.feature_plan import FeaturePlan
from dpstats.mechanisms.lattice import choose_bits
from dpstats.mechanisms.options import AdaSSP
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.records.features import smallest_eigenvalue, sum_products
from dpstats.records.moments import MomentSums
from dpstats.records.source import Source
from dpstats.release.noise import TRANSFER_VARIANCE, NoiseSource, gaussian_scale
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.atoms import STRUCTURAL_ZERO
from dpstats.specification.coding import code_design
from dpstats.specification.design import Design
from dpstats.specification.features import Features, build_features
from dpstats.specification.pairs import Pairs, pairs_of
from dpstats.specification.remember import remembered
from dpstats.specification.view import full_view

FAILURE = 0.05
"""Probability with which the bound on the noise's spectral norm may fail."""
NORMAL_95 = 1.645
EIGENVALUE_ERROR = 100 * float(np.finfo(np.float64).eps)
"""Times d^2 |X'X|: far above the backward error of a symmetric eigenvalue routine."""


@dataclass(frozen=True, slots=True, eq=False)
class AdaptivePlan(FeaturePlan):
    """A planned AdaSSP fit (zone: public).

    Attributes
    ----------
    features : Features
        The model's columns on their box.
    bits : int
        Lattice of step 2**-bits per feature.
    pairs : Pairs
        Products of features, and of a feature with the response; the response's square is not released.
    deviations : ndarray
        Standard deviation of the noise, shape (1 + K,): of the smallest eigenvalue, then per atom, features in [-1, 1].
    noise : NoisePlan
        The same in units of 2**(-2 bits).
    budget, cost : Budget
        What was asked for, and what the scales spend (rho = mu^2 / 2).
    """

    features: Features
    bits: int
    pairs: Pairs
    deviations: NDArray[np.float64]
    noise: NoisePlan
    budget: Budget
    cost: Budget

    @property
    def law(self) -> Literal["gaussian"]:
        """Law of the noise."""
        return "gaussian"

    @property
    def variances(self) -> NDArray[np.float64]:
        """Noise variance per atom, shape (K,)."""
        return self.deviations[1:] ** 2


@remembered
def plan_adassp(design: Design, options: AdaSSP, budget: Budget, n_rows: int) -> AdaptivePlan:
    """Plan an AdaSSP fit.

    Parameters
    ----------
    design : Design
        Model columns.
    options : AdaSSP
        Scaling.
    budget : Budget
        With delta, or rho.
    n_rows : int
        Public length of the table; fixes the lattice and the error of the eigenvalue.

    Raises
    ------
    BudgetError
        If the budget does not allow Gaussian noise, or is too small for the lattice.
    DesignError
        If the design is rank-deficient whatever the data.
    """
    if budget.is_private and budget.rho is None and budget.delta is None:
        raise BudgetError(f"AdaSSP adds Gaussian noise; give a delta beside epsilon, or rho, not {budget}")
    coding = code_design(design, "laplace")
    features = build_features(full_view(coding), coding, options.scaling)
    d, box = features.n_features, features.box
    radius = math.sqrt(d) * box
    error = EIGENVALUE_ERROR * d**2 * n_rows * radius**2
    pairs = _pairs(d, features.intercept)
    atoms = pairs.atoms
    mu = stage_strength(budget, "gaussian", 1 / 3)
    frobenius, linear = math.sqrt(2) * radius**2, 2 * radius
    diagonal, cross = atoms.left == atoms.right, atoms.right == d
    precise = np.select([diagonal, cross], [frobenius, linear], frobenius / math.sqrt(2)) / mu
    wanted = np.append((radius**2 + error) / mu, precise)
    bits = choose_bits(n_rows, float(wanted.max()))
    target = wanted * 4.0**bits
    target[0] += 1 / mu  # the eigenvalue is rounded to the lattice, which moves it by half a step each
    scales = gaussian_scale(target)
    excess = target**2 / (scales**2 - (TRANSFER_VARIANCE if budget.delta else 0.0))
    private = budget.is_private
    whole_box = features.lattice_box(bits)
    deviations = scales / 4.0**bits / np.append(whole_box**2, pairs.units(whole_box)) * private
    cost = Budget(rho=3 * mu**2 * float(excess.max()) / 2) if private else budget
    return AdaptivePlan(
        features, bits, pairs, deviations, NoisePlan("gaussian", scales, mu * math.sqrt(2) * target), budget, cost
    )


def _pairs(d: int, intercept: int) -> Pairs:
    """Products of features, and of features with the response, without the response's square.

    Without an intercept nothing counts the rows; the first pair stands in, and nothing that is printed uses it.
    """
    pairs = pairs_of(d, "triangle", max(intercept, 0), squares=False)
    index = pairs.atoms.index.copy()
    index[d, d] = STRUCTURAL_ZERO
    return replace(pairs, atoms=replace(pairs.atoms, index=index))


@dataclass(frozen=True, slots=True)
class AdaptiveFit:
    """A released AdaSSP fit (zone: released).

    Attributes
    ----------
    params : ndarray
        Coefficients of the model columns in raw units, shape (q,).
    ridge : float
        What was added to X'X, features in [-1, 1].
    """

    params: NDArray[np.float64]
    ridge: float


def fit_adassp(plan: AdaptivePlan, source: Source, noise: NoiseSource) -> AdaptiveFit:
    """Read the table once, release its noisy moments and smallest eigenvalue, and solve.

    Parameters
    ----------
    plan : AdaptivePlan
        From `plan_adassp`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.

    Notes
    -----
    lambda = max(0, sqrt(d log(2 d^2 / .05)) t - max(0, smallest - 1.645 s)), t the noise sd of an off-diagonal entry
    (that of a diagonal one over sqrt 2), s that of the smallest eigenvalue; beta = (X'X + lambda I)^-1 X'y, all noisy.
    """

    def statistic() -> NDArray[np.int64]:
        return released_sums(plan, sum_products(source, plan.features, plan.bits))

    return solve(plan, release_integers(statistic, plan.noise, noise))


def released_sums(plan: AdaptivePlan, sums: MomentSums) -> NDArray[np.int64]:
    """Return the exact integers that get noise, in the zone of the sums, shape (1 + K,)."""
    smallest = smallest_eigenvalue(sums.products[:-1, :-1])
    return np.append(np.int64(smallest), sums.products[plan.atoms.left, plan.atoms.right])


def solve(plan: AdaptivePlan, released: NDArray[np.int64]) -> AdaptiveFit:
    """Choose the ridge and return the coefficients from released integers."""
    atoms, features = plan.atoms, plan.features
    d, box = features.n_features, features.lattice_box(plan.bits)
    numbers = released / 4.0**plan.bits
    smallest = numbers[0] / box**2
    values = numbers[1:] / plan.pairs.units(box)
    matrix = np.where(atoms.index != STRUCTURAL_ZERO, values[atoms.index], 0.0)
    spectral = math.sqrt(d * math.log(2 * d**2 / FAILURE)) * plan.deviations[1] / math.sqrt(2)
    ridge = max(0.0, spectral - max(0.0, smallest - NORMAL_95 * plan.deviations[0]))
    solution = np.linalg.lstsq(matrix[:-1, :-1] + ridge * np.eye(d), matrix[:-1, -1], rcond=None)[0]
    return AdaptiveFit(features.raw_coefficients(solution), ridge)
