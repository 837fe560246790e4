"""Objective perturbation: a perturbed minimiser and the noisy Hessian there, for any convex loss of bounded slope.

public    predictors, rate and ridge, shares, scales: the plan
private   rows -> certified minimiser -> Hessian at the released parameter
release   random linear term with block noise; noise on the Hessian's atoms
public    the moment vector of a Newton step that takes the ridge out, with the known law of all noise
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.inference.estimates import ModelSpace
from dpstats.inference.robust import RobustSampling, ScoreTarget
from dpstats.inference.score_moments import ScoreMoments
from dpstats.mechanisms.classifier_options import Objective
from dpstats.mechanisms.hessian import HessianPlan, plan_hessian, release_hessian
from dpstats.mechanisms.minimum import MinimumPlan, plan_minimum, release_minimum
from dpstats.mechanisms.robust import ScoreRelease, ScoreStage, release_scores, require_measurable
from dpstats.mechanisms.stages import Stages, split_budget
from dpstats.privacy.notions import Budget
from dpstats.records.predictors import Table, sum_squared_losses
from dpstats.release.noise import NoiseSource
from dpstats.specification.coding import code_design
from dpstats.specification.design import Design
from dpstats.specification.losses import Loss
from dpstats.specification.perturbation import NO_RIDGE, Perturbation, calibrate
from dpstats.specification.predictors import Predictors, build_predictors
from dpstats.specification.remember import remembered
from dpstats.specification.view import full_view

MINIMISER, EXACT, HESSIAN, SCORES = "minimiser", "distance to the exact minimiser", "Hessian", "squared scores"


@dataclass(frozen=True, slots=True, eq=False)
class PerturbedPlan:
    """The releases of a perturbed loss, fixed before a record is read (zone: public).

    Attributes
    ----------
    predictors : Predictors
        The model's columns.
    loss : Loss
        What is minimised.
    stages : Stages
        How the budget is shared.
    minimum : MinimumPlan
        First release.
    hessian : HessianPlan
        Second release.
    scores : ScoreStage or None
        Third release: squared scores for robust standard errors, squared residuals of a regression.
    n_rows : int
        Public length of the table.
    """

    predictors: Predictors
    loss: Loss
    stages: Stages
    minimum: MinimumPlan
    hessian: HessianPlan
    scores: ScoreStage | None
    n_rows: int

    @property
    def space(self) -> ModelSpace:
        """The model's columns in the space of predictors."""
        space = space_of(self.predictors)
        half = self.predictors.view.design.response.half
        return replace(space, half=half) if self.loss.is_regression else space

    @property
    def ridge(self) -> float:
        """The ridge that privacy needs."""
        return self.minimum.perturbation.ridge

    def moments_of(self, hessian: NDArray[np.float64], theta: NDArray[np.float64]) -> ScoreMoments:
        """Return the moment vector of a Hessian, shape (q, q), and a parameter, with the known law of the noise."""
        return self.moments(hessian[self.hessian.left, self.hessian.right], theta)

    def moments(self, hessian: NDArray[np.float64], theta: NDArray[np.float64]) -> ScoreMoments:
        """Return the moment vector of a Hessian's atoms and a released minimiser.

        Parameters
        ----------
        hessian : ndarray
            One number per atom, shape (K,).
        theta : ndarray
            Shape (q,).
        """
        plan, minimum = self.hessian, self.minimum
        q = self.predictors.n_columns
        private = self.stages.budget.is_private
        linear = minimum.ball.variances(minimum.perturbation.gamma) if private else np.zeros(q)
        return ScoreMoments(
            np.concatenate([hessian, self.ridge * theta, np.zeros(q)]),
            np.concatenate([plan.variances, linear, np.full(q, minimum.output_variance)]),
            plan.law,
            bordered(plan.index, len(hessian)),
            int(plan.index[0, 0]),
            linear=minimum.ball if private else None,
            push=plan.matrix(hessian) + self.ridge * np.eye(q),
        )


def space_of(predictors: Predictors) -> ModelSpace:
    """Return the model's columns in the space of predictors."""
    return ModelSpace.of(predictors.view, predictors.constant)


def bordered(index: NDArray[np.int32], n_atoms: int) -> NDArray[np.int32]:
    """Return the index of a Hessian's atoms with the shift as a further, last column."""
    q = len(index)
    table = np.full((q + 1, q + 1), -1, dtype=np.int32)
    table[:q, :q] = index
    table[:q, q] = table[q, :q] = n_atoms + np.arange(q)
    return table


@remembered
def plan_perturbed(
    design: Design,
    loss: Loss,
    options: Objective,
    budget: Budget,
    n_rows: int,
    scores_share: float | None,
    bounds_share: float = 0.0,
) -> PerturbedPlan:
    """Plan the releases of a perturbed loss.

    Parameters
    ----------
    design : Design
        Model columns and an outcome, binary but for the loss of a regression.
    loss : Loss
        What is minimised.
    options : Objective
        Shares and law of the Hessian's noise.
    budget : Budget
        Of the whole fit.
    n_rows : int
        Public length of the table.
    scores_share : float or None
        Share for squared scores, of what is left after bounds; None for none.
    bounds_share : float
        Share for the bounds of undeclared columns.

    Raises
    ------
    BudgetError
        If the budget is too small for the lattice, or does not allow the noise asked for.
    DesignError
        If the design is rank-deficient whatever the data.
    """
    coding = code_design(design, "laplace")
    predictors = build_predictors(full_view(coding), coding)
    scores_part = (1 - bounds_share) * (scores_share or 0.0)
    rest = 1 - bounds_share - scores_part
    stages = split_budget(
        budget, rest * (1 - options.hessian_share), rest * options.hessian_share, scores_part, bounds_share
    )
    laws = [law for law in stages.allowed if options.noise in ("auto", law)]
    if not laws:
        raise BudgetError(f"gaussian noise needs a delta or rho, not {budget}")
    hessian = min(
        (plan_hessian(predictors, loss.bound, law, *stages.later(law, stages.hessian), n_rows) for law in laws),
        key=lambda plan: plan.typical_sd,
    )
    scores = None
    if scores_share is not None:
        scores = ScoreStage(hessian.law, *stages.later(hessian.law, stages.scores), n_rows)
        n_sums = predictors.n_columns + loss.is_regression
        require_measurable(scores, n_sums)
    row_size = predictors.row_size
    perturbation = (
        calibrate(loss, row_size, stages.epsilon_exact)
        if budget.is_private
        else Perturbation(np.inf, NO_RIDGE * row_size)
    )
    minimum = plan_minimum(predictors, loss, predictors.ball, perturbation, stages.epsilon_output, n_rows)
    return PerturbedPlan(predictors, loss, stages, minimum, hessian, scores, n_rows)


@dataclass(frozen=True, slots=True)
class ReleasedPerturbed:
    """What the releases of a perturbed loss give (zone: released).

    Attributes
    ----------
    theta : ndarray
        Released minimiser in the space of predictors, shape (q,).
    moments : ScoreMoments
        Moment vector with the known law of its noise.
    meat : ndarray or None
        Released covariance of the score, shape (q, q); None if it is taken from the Hessian.
    sampling : RobustSampling or None
        What squared scores say of the sampling covariance, if they were released.
    costs : dict of str to Budget
        What was spent on what.
    """

    theta: NDArray[np.float64]
    moments: ScoreMoments
    meat: NDArray[np.float64] | None
    sampling: RobustSampling | None
    costs: dict[str, Budget]


def release_step(plan: PerturbedPlan, table: Table, noise: NoiseSource) -> tuple[NDArray[np.float64], ScoreMoments]:
    """Release the minimiser, shape (q,), and the Hessian there.

    Parameters
    ----------
    plan : PerturbedPlan
        From `plan_perturbed`.
    table : Table
        The rows; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    """
    loss = plan.loss
    theta = release_minimum(plan.minimum, table, noise)
    atoms = release_hessian(plan.hessian, table, lambda eta, u: loss.curvature(eta, u) / loss.bound, theta, noise)
    return theta, plan.moments(atoms, theta)


def release_squares(
    plan: PerturbedPlan, target: ScoreTarget, table: Table, theta: NDArray[np.float64], noise: NoiseSource
) -> ScoreRelease:
    """Release the sums of squares that a target names, of the loss's residuals at the released minimiser.

    Parameters
    ----------
    plan, table, theta, noise
        As for `release_step`, and what it returned; the plan has a third release.
    target : ScoreTarget
        What to measure.
    """
    return release_scores(
        target,
        cast("ScoreStage", plan.scores),
        lambda steps: sum_squared_losses(table, plan.loss, theta, target.forms, target.ranges, steps),
        noise,
    )


def costs_of(plan: PerturbedPlan, later: dict[str, Budget] | None = None) -> dict[str, Budget]:
    """Return what the releases of a plan are charged, by name; `later` are those after the Hessian."""
    stages = plan.stages
    first = {
        MINIMISER: stages.pure(plan.minimum.epsilon_exact),
        EXACT: stages.pure(plan.minimum.epsilon_output),
    }
    return first | stages.charge({HESSIAN: plan.hessian.cost, **(later or {})})
