"""Classifiers by objective perturbation, with inference about the coefficients without a ridge.

public    the plan of `dpstats.mechanisms.perturbed`
private   rows -> certified minimiser -> Hessian, and squared scores, at the released parameter
release   noise on each of them
public    one Newton step from the released minimiser; intervals by the test that knows all noise
"""

from __future__ import annotations

import numpy as np

from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.robust import ScoreTarget, robust_sampling
from dpstats.inference.score_fit import solve_scores, with_score_covariance
from dpstats.mechanisms.perturbed import (
    SCORES,
    PerturbedPlan,
    ReleasedPerturbed,
    costs_of,
    release_squares,
    release_step,
)
from dpstats.mechanisms.robust import affordable
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
    target = affordable(
        lambda whole: loss_target(plan.predictors, space, fit, whole=whole), space.n_params, plan.scores
    )
    released = release_squares(plan, target, table, theta, noise)
    sampling = robust_sampling(target, released.scores, released.sd, correction)
    return ReleasedPerturbed(theta, moments, None, sampling, costs_of(plan, {SCORES: released.cost}))


def loss_target(predictors: Predictors, space: ModelSpace, fit: LeastSquares, *, whole: bool) -> ScoreTarget:
    """Fix what the release of squared scores measures: (a_j'z)^2 r^2 with |r| <= 1, for every coefficient.

    Parameters
    ----------
    predictors : Predictors
        The model's columns.
    space : ModelSpace
        The same with an orthonormal basis.
    fit : LeastSquares
        Step from the released minimiser.
    whole : bool
        Whether to measure the whole covariance.
    """
    return ScoreTarget.of(space, fit, predictors.ball.dual, predictors.row_size, np.empty(0), whole=whole)
