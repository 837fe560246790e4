"""Classifiers by objective perturbation, with inference about the coefficients without a ridge.

public    the plan of `dpstats.mechanisms.perturbed`
private   rows -> certified minimiser -> Hessian, and squared scores, at the released parameter
release   noise on each of them
public    one Newton step from the released minimiser; intervals by the test that knows all noise
"""

from __future__ import annotations

import numpy as np

from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.robust import RATIO_LIMITS, ScoreTarget, robust_ratios
from dpstats.inference.score_fit import solve_scores, with_score_covariance
from dpstats.mechanisms.perturbed import (
    SCORES,
    PerturbedPlan,
    ReleasedPerturbed,
    costs_of,
    release_squares,
    release_step,
)
from dpstats.records.predictors import as_table
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource
from dpstats.release.release import read_closed
from dpstats.specification.predictors import Predictors


def release_classifier(plan: PerturbedPlan, source: Source, noise: NoiseSource, correction: float) -> ReleasedPerturbed:
    """Read the table and release a classifier: minimiser, Hessian and, if planned, squared scores.

    Parameters
    ----------
    plan : PerturbedPlan
        From `plan_perturbed`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    correction : float
        Factor of robust variances: 1 for HC0, n / (n - q) for HC1.
    """
    table = read_closed(lambda: as_table(source, plan.predictors))
    theta, moments = release_step(plan, table, noise)
    if plan.scores is None:
        return ReleasedPerturbed(theta, moments, None, None, costs_of(plan))
    space = plan.space
    fit = with_score_covariance(moments, space, solve_scores(moments, space, theta))
    target = loss_target(plan.predictors, space, fit)
    released = release_squares(plan, target, table, theta, noise)
    ratios = robust_ratios(target, released.scores, released.sd, correction, _ratio_limits(plan))
    return ReleasedPerturbed(theta, moments, None, ratios, costs_of(plan, {SCORES: released.cost}))


def _ratio_limits(plan: PerturbedPlan) -> tuple[float, float]:
    """Return how far the score's variance may be from the Hessian: very far if the loss is no likelihood."""
    if not plan.loss.is_logistic:
        return 0.02, 50.0
    low, high = RATIO_LIMITS
    return (low if plan.predictors.view.design.response.sign else 0.01), high


def loss_target(predictors: Predictors, space: ModelSpace, fit: LeastSquares) -> ScoreTarget:
    """Fix what the release of squared scores measures: (a_j'z)^2 r^2 with |r| <= 1, for every coefficient.

    Parameters
    ----------
    predictors : Predictors
        The model's columns.
    space : ModelSpace
        The same with an orthonormal basis.
    fit : LeastSquares
        Step from the released minimiser.
    """
    leverage = np.asarray(np.linalg.solve(space.r, (space.q @ fit.inverse).T), dtype=np.float64)
    by_norm = (leverage**2).sum(axis=1) * predictors.row_size
    ranges = np.minimum(predictors.ball.dual(leverage) ** 2, by_norm)
    back = np.linalg.inv(space.r)
    floor = np.finfo(float).tiny ** 0.5
    return ScoreTarget(
        leverage,
        np.empty(0),
        1.0,
        np.asarray(np.maximum(ranges, floor), dtype=np.float64),
        np.asarray(np.maximum(np.diag(back @ fit.sampling @ back.T), floor), dtype=np.float64),
        predictors.row_size,
    )
