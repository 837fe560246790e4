"""The public forecast of a perturbed loss: what its Hessian and its noise would resolve on the reference table."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.errors import InfeasibleError
from dpstats.forecast.moments import Reference, hopeless, reference_gram
from dpstats.inference.diagnostics import USABLE, kappa
from dpstats.inference.estimates import ModelSpace
from dpstats.inference.moment_test import Contrast, contrasts
from dpstats.inference.robust import RobustSampling, with_robust_sampling
from dpstats.inference.score_fit import solve_scores, with_score_covariance
from dpstats.inference.score_moments import ScoreMoments
from dpstats.privacy.notions import Budget
from dpstats.specification.losses import Loss
from dpstats.specification.predictors import Predictors
from dpstats.specification.remember import remembered


class PlannedPerturbed(Protocol):
    """What the forecast needs of a perturbed loss's plan, whatever the mechanism (zone: public)."""

    @property
    def predictors(self) -> Predictors:
        """The model's columns."""

    @property
    def loss(self) -> Loss:
        """What is minimised."""

    @property
    def space(self) -> ModelSpace:
        """The model's columns with an orthonormal basis."""

    def moments_of(self, hessian: NDArray[np.float64], theta: NDArray[np.float64]) -> ScoreMoments:
        """Return the moment vector of a Hessian, shape (q, q), with the plan's noise variances."""


def require_resolved(plan: PlannedPerturbed, budget: Budget, n_rows: int) -> None:
    """Refuse a fit whose Hessian would have more noise than signal, before it is released.

    Parameters
    ----------
    plan : PlannedPerturbed
        The planned releases.
    budget : Budget
        What may be spent.
    n_rows : int
        Public length of the table.

    Raises
    ------
    InfeasibleError
        If kappa would exceed 1 even on uniformly spread columns; says which n, epsilon or rho would do.
    """
    number = reference_kappa(plan, n_rows) if budget.is_private else 0.0
    if number > 1:
        raise InfeasibleError(hopeless(plan.predictors.view.design, budget, n_rows, number / USABLE))


@remembered
def reference_kappa(plan: PlannedPerturbed, n_rows: int) -> float:
    """Return kappa on the reference table.

    Parameters
    ----------
    plan : PlannedPerturbed
        The planned releases.
    n_rows : int
        Public length of the table.
    """
    return kappa(reference_scores(plan, Reference(float(n_rows))), plan.space)


def reference_scores(plan: PlannedPerturbed, reference: Reference) -> ScoreMoments:
    """Return the moment vector of the reference table, with the noise variances of a plan.

    Parameters
    ----------
    plan : PlannedPerturbed
        The planned releases.
    reference : Reference
        Guesses about the table.
    """
    predictors, loss = plan.predictors, plan.loss
    gram = reference_gram(predictors.view.design, predictors.n_columns, predictors.code_public, reference)
    curvature = loss.bound * loss.typical_curvature
    return plan.moments_of(reference.n * curvature * gram, np.zeros(predictors.n_columns))


def reference_residual_contrasts(plan: PlannedPerturbed, reference: Reference) -> list[Contrast]:
    """Return the inference that the plan of a regression's loss would allow on the reference table, per coefficient.

    Parameters
    ----------
    plan : PlannedPerturbed
        The planned releases, of a loss of the residual.
    reference : Reference
        Guesses about the table.

    Notes
    -----
    Residuals are taken to be normal: their mean square, in units of the threshold and clipped, over the mean curvature
    is the sampling variance over that of a likelihood. Of the ridge, which a step takes out, nothing is counted.
    """
    space, loss = plan.space, plan.loss
    moments = reference_scores(plan, reference)
    fit = with_score_covariance(moments, space, solve_scores(moments, space, np.zeros(plan.predictors.n_columns)))
    residuals = reference.sd_y * math.sqrt(1 - reference.rsquared) * ndtri((np.arange(1_000) + 0.5) / 1_000)
    mean_square = float((loss.residual(np.zeros(1), residuals) ** 2).mean())
    ratio = mean_square / (loss.bound * loss.typical_curvature)
    fit = with_robust_sampling(fit, space, RobustSampling(np.full(space.n_params, ratio)))
    return contrasts(moments, space, fit, np.eye(space.n_params))
