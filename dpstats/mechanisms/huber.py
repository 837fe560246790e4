"""Huber's regression by objective perturbation: least squares whose residuals count up to a public threshold.

public    the plan of `dpstats.mechanisms.perturbed`, for the loss of Huber
private   rows -> certified minimiser -> Hessian, and sums of squared residuals, at the released parameter
release   noise on each of them
public    one Newton step from the released minimiser; intervals by the test that knows all noise

Covariances. With t the threshold, r the residuals in units of t, clipped to [-1, 1], and w = 1 / t for a row whose
residual is not clipped, 0 for the others, the score of the loss is sum z r and the Hessian H = sum w z z'. If the
spread of residuals does not depend on z, the covariance of the score is phi H with phi = sum r^2 / sum w: that of
statsmodels' ``RLM``, and sigma^2 X'X of least squares if nothing is clipped, when sigma^2 = t phi. sum w is c'H c, c
the combination of columns that is 1 on every row. For robust errors sum (a_j'z)^2 r^2 is released as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DesignError
from dpstats.inference.diagnostics import sum_of_weights
from dpstats.inference.inverse import SMALLEST
from dpstats.inference.robust import RobustSampling, ScoreTarget, robust_sampling
from dpstats.inference.score_fit import solve_scores, with_score_covariance
from dpstats.inference.score_moments import ScoreMoments
from dpstats.mechanisms.classifier_options import Objective
from dpstats.mechanisms.objective import loss_target
from dpstats.mechanisms.options import HC0, HC1, Huber
from dpstats.mechanisms.perturbed import (
    SCORES,
    PerturbedPlan,
    ReleasedPerturbed,
    costs_of,
    plan_perturbed,
    release_squares,
    release_step,
)
from dpstats.mechanisms.robust import ScoreRelease, ScoreStage, affordable
from dpstats.privacy.notions import Budget
from dpstats.records.predictors import as_table
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource
from dpstats.release.release import read_closed
from dpstats.specification.design import Design
from dpstats.specification.forms import Forms
from dpstats.specification.losses import HuberResidual

SQUARES = "squared residuals"
SQUARES_SHARE = 0.12
"""Share of the budget for the sum of squared residuals, where standard errors are not robust, times the threshold as a
share of the response's range, at least a quarter: in units of a larger threshold residuals are smaller."""
HESSIAN_SHARE = 0.15
"""Share of the budget for the Hessian, where options name none."""
UNIT = 4.0
"""In which Gaussian noise on sum r^2 is measured beside robust variances, each in units of one row's largest part or
more: all standard errors need that sum, and it takes little of the budget."""

SQUARED_FIRST = 0.2
"""Part of the expected sum of squared residuals beside which its noise must be little if covariances are measured."""


def plan_huber(design: Design, options: Huber, budget: Budget, n_rows: int, robust: HC0 | None) -> PerturbedPlan:
    """Plan the releases.

    Parameters
    ----------
    design : Design
        Model columns and a numeric response.
    options : Huber
        Threshold, shares, law of noise.
    budget : Budget
        Of the whole fit.
    n_rows : int
        Public length of the table.
    robust : HC0 or None
        Robust standard errors, if they are asked for.

    Raises
    ------
    BudgetError
        If the budget is too small for the lattice, or does not allow the noise asked for.
    DesignError
        If the design is rank-deficient whatever the data, or has no intercept.
    """
    share = SQUARES_SHARE * max(options.threshold, 0.25) if robust is None else robust.share
    shares = Objective(hessian_share=options.hessian_share or HESSIAN_SHARE, noise=options.noise)
    plan = plan_perturbed(design, HuberResidual(2 * options.threshold), shares, budget, n_rows, share)
    if not plan.predictors.view.has_constant:
        raise DesignError(
            f"mechanism='huber' needs an intercept, and {design.formula!r} has none: residuals are about the middle of "
            "the response's range. Leave out '0 +' or '- 1', or use mechanism='ssp'"
        )
    return plan


@dataclass(frozen=True, slots=True)
class ReleasedHuber:
    """What the releases give (zone: released).

    Attributes
    ----------
    fit : ReleasedPerturbed
        Minimiser, moment vector and, per coefficient, sampling variance over that of a likelihood.
    sigma2 : float
        Residual variance t phi, of clipped residuals, in units of half the response's range squared.
    clamped : bool
        True if the noise hides it, so that it is a bound.
    """

    fit: ReleasedPerturbed
    sigma2: float
    clamped: bool


def release_huber(plan: PerturbedPlan, source: Source, noise: NoiseSource, robust: HC0 | None) -> ReleasedHuber:
    """Read the table and release minimiser, Hessian and sums of squared residuals.

    Parameters
    ----------
    plan : PerturbedPlan
        From `plan_huber`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    robust : HC0 or None
        As for `plan_huber`.
    """
    table = read_closed(lambda: as_table(source, plan.predictors))
    theta, moments = release_step(plan, table, noise)
    target = affordable(
        lambda whole: squares_target(plan, moments, theta, robust, whole=whole),
        1 if robust is None else plan.predictors.n_columns,
        cast("ScoreStage", plan.scores),
        SQUARED_FIRST * plan.n_rows * _loss(plan).typical_square,
    )
    released = release_squares(plan, target, table, theta, noise)
    total, unclipped = float(released.scores[0]), _unclipped(plan, moments)
    squares = min(max(total, float(released.sd[0])), float(plan.n_rows))
    phi, bound, q = squares / unclipped.value, plan.loss.bound, plan.predictors.n_columns
    correction = unclipped.value / max(unclipped.value - q * bound, bound)
    if robust is None:
        sampling, name = RobustSampling(np.full(q, phi * correction)), SQUARES
    else:
        sampling = _robust_sampling(plan, target, released, phi, correction if isinstance(robust, HC1) else 1.0)
        name = f"{SQUARES} and {robust.name} {SCORES}"
    fit = ReleasedPerturbed(theta, moments, None, sampling, costs_of(plan, {name: released.cost}))
    return ReleasedHuber(fit, phi * correction / bound, squares != total or unclipped.is_clamped)


def squares_target(
    plan: PerturbedPlan, moments: ScoreMoments, theta: NDArray[np.float64], robust: HC0 | None, *, whole: bool = False
) -> ScoreTarget:
    """Fix what is measured: sum r^2, and for robust errors sum (a_j'z)^2 r^2 for every coefficient.

    Parameters
    ----------
    plan, robust
        As for `release_huber`.
    moments, theta
        What was released first.
    whole : bool
        Whether robust errors are those of the whole covariance.
    """
    predictors = plan.predictors
    constant = predictors.constant[None]
    alone = ScoreTarget(Forms.of(constant), None, np.empty(0), 1.0, np.ones(1), np.array([UNIT]), predictors.row_size)
    if robust is None:
        return alone
    space = plan.space
    fit = with_score_covariance(moments, space, solve_scores(moments, space, theta))
    each = loss_target(predictors, space, fit, whole=whole)
    return replace(
        each,
        forms=each.forms.after(constant),
        ranges=np.append(alone.ranges, each.ranges),
        model=np.append(alone.model, _typical_phi(plan) * each.model),
    )


def _loss(plan: PerturbedPlan) -> HuberResidual:
    return cast("HuberResidual", plan.loss)


def _typical_phi(plan: PerturbedPlan) -> float:
    return _loss(plan).typical_square / plan.loss.bound


def _robust_sampling(
    plan: PerturbedPlan, target: ScoreTarget, released: ScoreRelease, phi: float, correction: float
) -> RobustSampling:
    """Return robust variances over those of a likelihood, shrunk towards phi, or the whole covariance."""
    likelihood = target.model[1:] / _typical_phi(plan)
    model = np.maximum(phi * likelihood, SMALLEST)
    own = replace(target, forms=target.forms.from_place(1), ranges=target.ranges[1:], model=model)
    found = robust_sampling(own, released.scores[1:], released.sd[1:], correction)
    return found if found.ratios is None else replace(found, ratios=phi * found.ratios)


@dataclass(frozen=True, slots=True)
class _Unclipped:
    """Sum w (zone: released): the number of rows whose residual is not clipped, over t."""

    value: float
    is_clamped: bool


def _unclipped(plan: PerturbedPlan, moments: ScoreMoments) -> _Unclipped:
    """Return sum w, at least the standard deviation of its noise and one row's part."""
    found, sd = sum_of_weights(moments, plan.space)
    least = max(sd, plan.loss.bound)
    return _Unclipped(max(found, least), found < least)
