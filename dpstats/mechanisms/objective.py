"""Objective perturbation with inference about the coefficients without a ridge: our mechanism for classifiers.

public    predictors, rate and ridge, shares, scales: the plan
private   rows -> certified minimiser -> Hessian, and squared scores, at the released parameter
release   random linear term with block noise; noise on the Hessian's atoms; noise on the squared scores
public    one Newton step from the released minimiser; intervals by the test that knows all noise
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.robust import RATIO_LIMITS, ScoreTarget, robust_ratios
from dpstats.inference.score_fit import solve_scores, with_score_covariance
from dpstats.inference.score_moments import ScoreMoments
from dpstats.mechanisms.classifier_options import Objective
from dpstats.mechanisms.hessian import HessianPlan, plan_hessian, release_hessian
from dpstats.mechanisms.minimum import MinimumPlan, plan_minimum, release_minimum
from dpstats.mechanisms.robust import ScoreStage, release_scores, require_measurable
from dpstats.mechanisms.stages import Stages, split_budget
from dpstats.privacy.notions import Budget
from dpstats.records.predictors import as_table, sum_squared_losses
from dpstats.records.source import Source
from dpstats.release.noise import NoiseSource
from dpstats.release.release import read_closed
from dpstats.specification.coding import code_design
from dpstats.specification.design import Design
from dpstats.specification.losses import Loss
from dpstats.specification.perturbation import NO_RIDGE, Perturbation, calibrate
from dpstats.specification.predictors import Predictors, build_predictors
from dpstats.specification.remember import remembered
from dpstats.specification.view import full_view

MINIMISER, EXACT, HESSIAN, SCORES = "minimiser", "distance to the exact minimiser", "Hessian", "squared scores"


@dataclass(frozen=True, slots=True, eq=False)
class ClassifierPlan:
    """A classifier's releases, fixed before a record is read (zone: public).

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
        Third release, for robust standard errors.
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
        return space_of(self.predictors)

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
    view = predictors.view
    q, r = np.linalg.qr(view.contrast.T)
    return ModelSpace(q, r, predictors.constant, view.has_constant, 0.0, 1.0)


def bordered(index: NDArray[np.int32], n_atoms: int) -> NDArray[np.int32]:
    """Return the index of a Hessian's atoms with the shift as a further, last column."""
    q = len(index)
    table = np.full((q + 1, q + 1), -1, dtype=np.int32)
    table[:q, :q] = index
    table[:q, q] = table[q, :q] = n_atoms + np.arange(q)
    return table


@remembered
def plan_classifier(
    design: Design,
    loss: Loss,
    options: Objective,
    budget: Budget,
    n_rows: int,
    scores_share: float | None,
    bounds_share: float = 0.0,
) -> ClassifierPlan:
    """Plan the releases of a classifier.

    Parameters
    ----------
    design : Design
        Model columns and a binary outcome.
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
        require_measurable(scores, predictors.n_columns)
    row_size = predictors.row_size
    perturbation = (
        calibrate(loss, row_size, stages.epsilon_exact)
        if budget.is_private
        else Perturbation(np.inf, NO_RIDGE * row_size)
    )
    minimum = plan_minimum(predictors, loss, predictors.ball, perturbation, stages.epsilon_output, n_rows)
    return ClassifierPlan(predictors, loss, stages, minimum, hessian, scores, n_rows)


@dataclass(frozen=True, slots=True)
class ReleasedClassifier:
    """What a classifier's releases give (zone: released).

    Attributes
    ----------
    theta : ndarray
        Released minimiser in the space of predictors, shape (q,).
    moments : ScoreMoments
        Moment vector with the known law of its noise.
    meat : ndarray or None
        Released covariance of the score, shape (q, q); None if it is taken from the Hessian.
    ratios : ndarray or None
        Robust over model-based sampling variance per coefficient, shape (q,), if scores were released.
    costs : dict of str to Budget
        What was spent on what.
    """

    theta: NDArray[np.float64]
    moments: ScoreMoments
    meat: NDArray[np.float64] | None
    ratios: NDArray[np.float64] | None
    costs: dict[str, Budget]


def release_classifier(
    plan: ClassifierPlan, source: Source, noise: NoiseSource, correction: float
) -> ReleasedClassifier:
    """Read the table and release minimiser, Hessian and, if planned, squared scores.

    Parameters
    ----------
    plan : ClassifierPlan
        From `plan_classifier`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    correction : float
        Factor of robust variances: 1 for HC0, n / (n - q) for HC1.
    """
    loss, stages = plan.loss, plan.stages
    table = read_closed(lambda: as_table(source, plan.predictors))
    theta = release_minimum(plan.minimum, table, noise)
    atoms = release_hessian(plan.hessian, table, lambda eta, u: loss.curvature(eta, u) / loss.bound, theta, noise)
    moments = plan.moments(atoms, theta)
    first = {
        MINIMISER: stages.pure(plan.minimum.epsilon_exact),
        EXACT: stages.pure(plan.minimum.epsilon_output),
    }
    if plan.scores is None:
        costs = first | stages.charge({HESSIAN: plan.hessian.cost})
        return ReleasedClassifier(theta, moments, None, None, costs)
    space = plan.space
    fit = with_score_covariance(moments, space, solve_scores(moments, space, theta))
    target = loss_target(plan.predictors, space, fit)
    released = release_scores(
        target,
        plan.scores,
        lambda steps: sum_squared_losses(table, loss, theta, target.leverage, target.ranges, steps),
        noise,
    )
    ratios = robust_ratios(target, released.scores, released.sd, correction, _ratio_limits(plan))
    costs = first | stages.charge({HESSIAN: plan.hessian.cost, SCORES: released.cost})
    return ReleasedClassifier(theta, moments, None, ratios, costs)


def _ratio_limits(plan: ClassifierPlan) -> tuple[float, float]:
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
