"""The functional mechanism: Laplace noise on the coefficients of an objective of degree two (Zhang et al. 2012).

public    features on a box, noise scales from the sensitivity, ridge from the scales: the plan
private   rows -> features -> integer lattice -> exact sums of products
release   one Laplace draw per coefficient; with bounded="repeat" drawn again until the objective is bounded
public    noisy moments of the features; the minimiser and its inference are post-processing

Diff-LR is the same with scales of its own (`diff_lr.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.ridge import Ridge
from dpstats.mechanisms.diff_lr import split_scales
from dpstats.mechanisms.feature_plan import FeaturePlan
from dpstats.mechanisms.lattice import TINY, TOO_SMALL, choose_bits
from dpstats.mechanisms.options import DiffLR, Functional
from dpstats.privacy.notions import Budget
from dpstats.records.features import sum_products
from dpstats.records.moments import MomentSums
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource, laplace_scale
from dpstats.release.release import NoisePlan, release_integers, release_until
from dpstats.specification.coding import code_design
from dpstats.specification.design import Design
from dpstats.specification.features import Features, build_features
from dpstats.specification.objectives import (
    QuadraticObjective,
    Scales,
    joint_cost,
    quadratic_constant,
    scales_at_ratio,
    squares_scale,
)
from dpstats.specification.pairs import Pairs, pairs_of
from dpstats.specification.remember import remembered
from dpstats.specification.view import full_view

COUNT_SHARE = 0.05
"""Share of the budget for the number of complete rows where no intercept gives it."""


@dataclass(frozen=True, slots=True, eq=False)
class ObjectivePlan(FeaturePlan):
    """A noisy objective, fixed before a record is read (zone: public).

    Attributes
    ----------
    features : Features
        The model's columns on their box.
    objective : QuadraticObjective
        What is minimised.
    options : Functional or DiffLR
        As chosen.
    bits : int
        Lattice of step 2**-bits per feature.
    scales : Scales
        Laplace scales of the sums in one draw, in units of the features' box.
    pairs : Pairs
        The released sums and their atoms.
    noise : NoisePlan
        Scales in units of 2**(-2 bits), one per released sum.
    variances : ndarray
        Noise variance per atom for features in [-1, 1], shape (K,); 0 without noise.
    budget, cost : Budget
        What was asked for, and what is spent.
    """

    features: Features
    objective: QuadraticObjective
    options: Functional | DiffLR
    bits: int
    scales: Scales
    pairs: Pairs
    noise: NoisePlan
    variances: NDArray[np.float64]
    budget: Budget
    cost: Budget

    @property
    def law(self) -> Literal["laplace"]:
        """Law of the noise."""
        return "laplace"

    @property
    def ridge(self) -> Ridge:
        """What is added to X'X for features in [-1, 1], and whether directions without curvature are dropped.

        The published ridge is a multiple of the standard deviation of the noise in an entry of the objective's matrix,
        q X'X; divided by q it is that multiple of sqrt(2) t1.
        """
        sd = math.sqrt(2) * self.scales.products if self.budget.is_private else 0.0
        regularized = "regularize" in self.options.bounded
        size = self.options.multiple * sd / self.features.box**2 if regularized else 0.0
        return Ridge(size, trim="trim" in self.options.bounded)


@remembered
def plan_objective(
    design: Design, objective: QuadraticObjective, options: Functional | DiffLR, budget: Budget, n_rows: int
) -> ObjectivePlan:
    """Plan the release of a noisy objective.

    Parameters
    ----------
    design : Design
        Model columns.
    objective : QuadraticObjective
        Least squares or the Taylor logistic loss.
    options : Functional or DiffLR
        Sensitivity, scaling, entries, and how the objective is kept bounded.
    budget : Budget
        Pure epsilon.
    n_rows : int
        Public length of the table; fixes the lattice.

    Raises
    ------
    BudgetError
        If the budget is not a pure epsilon, or too small for the lattice.
    DesignError
        If the design is rank-deficient whatever the data.
    """
    if budget.rho is not None or budget.delta is not None:
        name = type(options).__name__
        raise BudgetError(f"{name} adds Laplace noise and spends a pure epsilon; give epsilon alone, not {budget}")
    coding = code_design(design, "laplace")
    features = build_features(full_view(coding), coding, options.scaling, binary=objective.binary)
    epsilon = budget.epsilon if budget.is_private and budget.epsilon else 1.0
    if epsilon < TINY:
        raise BudgetError(TOO_SMALL)
    per_draw = epsilon / 2 if options.bounded == "repeat" else epsilon
    k, size = quadratic_constant(features.n_features, options.entries), features.size
    squares = not (objective.binary and design.response.sign)
    scales = _scales_at_one(features, objective, options, squares, n_rows * per_draw)
    count = math.inf
    if not features.has_intercept:
        count = 1 / min(1 - joint_cost(size, scales, k), COUNT_SHARE)
    pairs = pairs_of(features.n_features, options.entries, features.intercept, squares=squares)
    wanted = pairs.spread(scales.products, scales.cross, scales.squares, count) / per_draw
    bits = choose_bits(n_rows, float(wanted.max()))
    whole = laplace_scale(wanted * 4.0**bits)
    spent = per_draw * (joint_cost(size, scales, k) + 1 / count)
    variances = pairs.average_variances(2 * (whole / 4.0**bits) ** 2)
    return ObjectivePlan(
        features,
        objective,
        options,
        bits,
        Scales(scales.products / per_draw, scales.cross / per_draw, scales.squares / per_draw),
        pairs,
        NoisePlan("laplace", whole, spent * wanted * 4.0**bits),
        variances / pairs.units(features.lattice_box(bits)) ** 2 * budget.is_private,
        budget,
        _charge(budget, options, spent * float((wanted * 4.0**bits / whole).max())),
    )


def _scales_at_one(
    features: Features, objective: QuadraticObjective, options: Functional | DiffLR, squares: bool, information: float
) -> Scales:
    """Choose the scales of one draw at epsilon = 1; all costs are inversely proportional to the scales.

    Without an intercept a share is left for the count: under the tight sensitivity by all sums, under a published one
    by u^2 alone, because its other scales leave room.
    """
    d, size = features.n_features, features.size
    k = quadratic_constant(d, options.entries)
    usable = 1.0 if features.has_intercept else 1 - COUNT_SHARE
    if isinstance(options, DiffLR):
        return split_scales(options, d, size, usable, information)
    if options.sensitivity == "tight":
        return scales_at_ratio(size, objective.linear / objective.quadratic, k, usable, squares=squares)
    b = objective.published_sensitivity(d, constant=options.sensitivity == "paper")
    t1, t2 = b / objective.quadratic, b / objective.linear
    return Scales(t1, t2, squares_scale(size, t1, t2, k, usable) if squares else math.inf)


def _charge(budget: Budget, options: Functional | DiffLR, spent: float) -> Budget:
    """Return the cost: recomputed from the scales, or what was asked for under a published sensitivity.

    A published sensitivity is larger than the tight one: its scales spend less than they claim. The claim is charged.
    """
    if not budget.is_private or options.sensitivity != "tight":
        return budget
    return Budget(epsilon=spent * (2 if options.bounded == "repeat" else 1))


def release_objective(plan: ObjectivePlan, source: Source, noise: NoiseSource) -> NoisyMoments:
    """Read the table once and release the noisy sums of the objective, features in [-1, 1].

    Parameters
    ----------
    plan : ObjectivePlan
        From `plan_objective`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.

    Notes
    -----
    bounded="repeat" draws the noise again until X'X with noise is positive definite. For neighbouring tables both the
    density of an outcome and the probability of acceptance change by a factor of at most exp(epsilon / 2), so the
    accepted outcome is epsilon-private.
    """

    def statistic() -> NDArray[np.int64]:
        return released_sums(plan, sum_products(source, plan.features, plan.bits))

    if plan.options.bounded == "repeat":
        released = release_until(statistic, plan.noise, noise, lambda sums: _is_bounded(noisy_moments(plan, sums)))
    else:
        released = release_integers(statistic, plan.noise, noise)
    return noisy_moments(plan, released)


def released_sums(plan: ObjectivePlan, sums: MomentSums) -> NDArray[np.int64]:
    """Return the exact integers that get noise, in the zone of the sums, shape (R,)."""
    return plan.pairs.select(sums.products, sums.n_complete << (2 * plan.bits))


def noisy_moments(plan: ObjectivePlan, released: NDArray[np.int64]) -> NoisyMoments:
    """Return released integers as moments of features in [-1, 1].

    Notes
    -----
    An average of two draws (entries="full") is taken for one Laplace noise of the same variance: its tails are lighter,
    so intervals are a little too wide. The law of noise that was accepted (bounded="repeat") is taken for that of any
    noise: the forecast refuses where less than half of the draws would be accepted.
    """
    pairs = plan.pairs
    units = pairs.units(plan.features.lattice_box(plan.bits)) * 4.0**plan.bits
    values = pairs.average(released.astype(np.float64)) / units
    return NoisyMoments(values, plan.variances, plan.law, pairs.atoms.index, pairs.atoms.count)


def _is_bounded(moments: NoisyMoments) -> bool:
    return bool(np.linalg.eigvalsh(moments.matrix[:-1, :-1])[0] > 0)
