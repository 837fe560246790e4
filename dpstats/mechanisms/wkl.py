"""Objective and output perturbation with confidence intervals, by Wang, Kifer and Lee (2019).

public    penalty, rate of the noise, shares, scales: the plan
private   rows in the unit ball -> minimiser; Hessian and gradient covariance at the released parameter
release   spherical noise in the objective (Algorithm 1) or on the minimiser (4); noisy matrices (2)
public    intervals about the penalised coefficients from the law of all noise (3, 5)

In their notation the loss is (1/n) sum f + c ||theta||^2 over rows with ||x|| <= 1. Here rows have ||z|| <= R and sums
are not divided by n, so that lam = 2 n c R^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError, OptionError
from dpstats.inference.estimates import ModelSpace
from dpstats.inference.score_moments import ScoreMoments
from dpstats.mechanisms.classifier_options import WKLObjective, WKLOutput
from dpstats.mechanisms.lattice import TINY, TOO_SMALL
from dpstats.mechanisms.minimum import MOST_BITS, MinimumPlan, on_lattice, plan_minimum, release_minimum
from dpstats.mechanisms.noisy_matrix import MatrixPlan, plan_matrix, release_matrix, triangle_index
from dpstats.mechanisms.perturbed import EXACT, HESSIAN, MINIMISER, ReleasedPerturbed, bordered, space_of
from dpstats.mechanisms.stages import OUTPUT
from dpstats.privacy.notions import Budget
from dpstats.records.minimize import minimize, tolerance
from dpstats.records.predictors import Table, as_table
from dpstats.records.source import Source
from dpstats.release.noise import ROUNDING, NoiseSource, gaussian_scale
from dpstats.release.release import NoisePlan, read_closed, release_integers
from dpstats.specification.coding import code_design
from dpstats.specification.design import Design
from dpstats.specification.losses import Loss
from dpstats.specification.perturbation import JACOBIAN_LIMIT, NO_RIDGE, SMALLEST_RIDGE, Perturbation, with_ridge
from dpstats.specification.predictors import Ball, Predictors, build_predictors
from dpstats.specification.remember import remembered
from dpstats.specification.view import full_view

COVARIANCE = "gradient covariance"
JACOBIAN = 0.1
"""Share of the minimiser's epsilon for the determinant, where a hinge loss chooses its penalty by itself."""
OUTPUT_STEPS = 2.0**12
"""Steps of the lattice within the sensitivity of the minimiser."""


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """The release of a minimiser with noise on it, fixed before a record is read (zone: public).

    Attributes
    ----------
    ridge, tau : float
        lam, and the certified gradient norm.
    bits : int
        Lattice of step 2**-bits for the parameter.
    noise : NoisePlan
        Spherical or Gaussian noise in lattice steps.
    variance : float
        Per coordinate, in units of the parameter; 0 without noise.
    cost : Budget
        epsilon or rho.
    """

    ridge: float
    tau: float
    bits: int
    noise: NoisePlan
    variance: float
    cost: Budget


@dataclass(frozen=True, slots=True, eq=False)
class WKLPlan:
    """The releases of the paper's methods, fixed before a record is read (zone: public).

    Attributes
    ----------
    predictors : Predictors
        The model's columns.
    loss : Loss
        What is minimised.
    options : WKLObjective or WKLOutput
        As chosen.
    minimum : MinimumPlan or OutputPlan
        First release.
    ridge : float
        lam.
    hessian, covariance : MatrixPlan
        Second and third release.
    n_rows : int
        Public length of the table.
    budget : Budget
        Of the whole fit.
    """

    predictors: Predictors
    loss: Loss
    options: WKLObjective | WKLOutput
    minimum: MinimumPlan | OutputPlan
    ridge: float
    hessian: MatrixPlan
    covariance: MatrixPlan
    n_rows: int
    budget: Budget

    @property
    def space(self) -> ModelSpace:
        """The model's columns in the space of predictors."""
        return space_of(self.predictors)

    @property
    def penalty(self) -> float:
        """C of the paper."""
        return self.ridge / (2 * self.n_rows * self.predictors.row_size)

    @property
    def removes_penalty(self) -> bool:
        """True if one Newton step takes the penalty out."""
        return isinstance(self.options, WKLObjective) and self.options.debias

    def moments_of(self, hessian: NDArray[np.float64], theta: NDArray[np.float64]) -> ScoreMoments:
        """Return the moment vector of a loss's Hessian, shape (q, q), and a parameter, with the law of the noise.

        The penalised Hessian is at least lam, so smaller eigenvalues of the noisy one are raised to it.
        """
        q, minimum = self.predictors.n_columns, self.minimum
        values, vectors = np.linalg.eigh(hessian)
        penalised = (vectors * (np.maximum(values, 0.0) + self.ridge)) @ vectors.T
        used = hessian if self.removes_penalty else penalised
        shift = self.ridge * theta if self.removes_penalty else np.zeros(q)
        index = triangle_index(q)
        entries = used[np.triu_indices(q)]
        linear: Ball | None = None
        direct: Ball | None = None
        linear_variance, direct_variance = np.zeros(q), np.zeros(q)
        if isinstance(minimum, OutputPlan):
            direct_variance = np.full(q, minimum.variance)
            direct = None if minimum.noise.law == "gaussian" else Ball((), (1.0,), q)
        elif self.budget.is_private:
            linear = minimum.ball
            linear_variance = linear.variances(minimum.perturbation.gamma)
            direct_variance = np.full(q, minimum.output_variance)
        return ScoreMoments(
            np.concatenate([entries, shift, np.zeros(q)]),
            np.concatenate([self.loss.bound**2 * self.hessian.variances, linear_variance, direct_variance]),
            "gaussian",
            bordered(index, len(entries)),
            0,
            linear=linear,
            direct=direct,
            push=penalised,
            is_output=isinstance(minimum, OutputPlan),
        )


@remembered
def plan_wkl(design: Design, loss: Loss, options: WKLObjective | WKLOutput, budget: Budget, n_rows: int) -> WKLPlan:
    """Plan the releases of objective or output perturbation.

    Parameters
    ----------
    design : Design
        Model columns and a binary outcome.
    loss : Loss
        What is minimised.
    options : WKLObjective or WKLOutput
        Penalty and shares.
    budget : Budget
        A pure epsilon, or rho.
    n_rows : int
        Public length of the table.

    Raises
    ------
    BudgetError
        If the budget has a delta, or is too small for the lattice or for the penalty.
    DesignError
        If the design is rank-deficient whatever the data.
    """
    if budget.delta is not None:
        raise BudgetError(f"{type(options).__name__} takes epsilon alone, or rho, not {budget}")
    coding = code_design(design, "laplace")
    predictors = build_predictors(full_view(coding), coding)
    first, second, third = (_part(budget, share) for share in options.split)
    ridge = _ridge(predictors, loss, options.penalty, first, n_rows)
    if isinstance(options, WKLOutput):
        minimum: MinimumPlan | OutputPlan = _plan_output(predictors, loss, ridge, first, n_rows)
    else:
        minimum = _plan_objective(predictors, loss, ridge, first, n_rows)
    return WKLPlan(
        predictors,
        loss,
        options,
        minimum,
        ridge,
        plan_matrix(predictors, second, n_rows),
        plan_matrix(predictors, third, n_rows),
        n_rows,
        budget,
    )


def _part(budget: Budget, share: float) -> Budget:
    if not budget.is_private:
        return budget
    return Budget(rho=share * budget.rho) if budget.rho is not None else Budget(epsilon=share * (budget.epsilon or 0.0))


def _pure(budget: Budget) -> float:
    """Return the epsilon of a stage: epsilon-DP is epsilon^2 / 2-zCDP."""
    return math.sqrt(2 * budget.rho) if budget.rho is not None else float(budget.epsilon or 0.0)


def _exact(budget: Budget) -> float:
    """Return what the exact minimiser may cost: a hundredth of epsilon is for the distance of the certified one."""
    epsilon = _pure(budget)
    return epsilon * (1 - OUTPUT) if budget.rho is None else epsilon * math.sqrt(1 - OUTPUT**2)


def _ridge(predictors: Predictors, loss: Loss, penalty: float | None, first: Budget, n_rows: int) -> float:
    """Return lam: of the given penalty, or the smallest that leaves the noise as it is."""
    row_size = predictors.row_size
    if penalty is not None:
        return 2 * n_rows * penalty * row_size
    if not first.is_private:
        return NO_RIDGE * row_size
    epsilon = _exact(first)
    if epsilon < TINY:
        raise BudgetError(TOO_SMALL)
    if loss.is_logistic:
        return max(2 / epsilon, SMALLEST_RIDGE) * row_size
    return loss.bound * row_size / math.expm1(min(JACOBIAN * epsilon, JACOBIAN_LIMIT))


def _plan_objective(predictors: Predictors, loss: Loss, ridge: float, first: Budget, n_rows: int) -> MinimumPlan:
    """Algorithm 1, the logarithm paid once."""
    ball = Ball((), (math.sqrt(predictors.row_size),), predictors.n_columns)
    if not first.is_private:
        return plan_minimum(predictors, loss, ball, Perturbation(math.inf, ridge), 1.0, n_rows)
    exact = _exact(first)
    perturbation = with_ridge(loss, predictors.row_size, exact, ridge)
    if not perturbation.gamma > 0.01 * exact:
        raise OptionError(
            f"this penalty is too small for {first}: the noise would have to be infinite; give a larger one, or None"
        )
    return plan_minimum(predictors, loss, ball, perturbation, OUTPUT * _pure(first), n_rows)


def _plan_output(predictors: Predictors, loss: Loss, ridge: float, first: Budget, n_rows: int) -> OutputPlan:
    """Algorithm 4: the minimiser moves by at most 2 R / lam, and its certified approximation by 2 tau / lam more."""
    tau, q = tolerance(predictors.row_size, n_rows, loss.bound), predictors.n_columns
    change = 2 * (math.sqrt(predictors.row_size) + tau) / ridge
    private = first.is_private
    bits = max(0, min(MOST_BITS, math.ceil(math.log2(OUTPUT_STEPS / change)))) if private else MOST_BITS
    reach = (change * 2.0**bits + math.sqrt(q)) * ROUNDING
    strength = _pure(first) if private else 1.0
    if private and (strength < TINY or not reach / strength * (q + 40) < 2.0**60):
        raise BudgetError(TOO_SMALL)
    if first.rho is None:
        scale = float(np.nextafter(reach / strength * ROUNDING, np.inf))
        noise = NoisePlan("spherical", np.full(q, scale), np.full(q, reach))
        variance, cost = (q + 1) * scale**2, Budget(epsilon=reach / scale)
    else:
        scale = float(gaussian_scale(np.array([reach / strength]))[0])
        noise = NoisePlan("gaussian", np.full(q, scale), np.full(q, reach))
        variance, cost = scale**2, Budget(rho=reach**2 / scale**2 / 2)
    return OutputPlan(ridge, tau, bits, noise, variance * 4.0**-bits * private, cost if private else first)


def release_wkl(plan: WKLPlan, source: Source, noise: NoiseSource) -> ReleasedPerturbed:
    """Read the table and release minimiser, Hessian and gradient covariance.

    Parameters
    ----------
    plan : WKLPlan
        From `plan_wkl`.
    source : Source
        The table; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.

    Notes
    -----
    Given the released theta, |f'| is at most 1 / (1 + exp(-max |z'theta|)) for the logistic loss, by which the weights
    f'^2 are divided before they get noise.
    """
    loss, minimum = plan.loss, plan.minimum
    table = read_closed(lambda: as_table(source, plan.predictors))
    if isinstance(minimum, OutputPlan):
        theta = _release_output(minimum, loss, table, noise)
        costs = {MINIMISER: minimum.cost}
    else:
        theta = release_minimum(minimum, table, noise)
        costs = {
            MINIMISER: _charge(plan.budget, minimum.epsilon_exact),
            EXACT: _charge(plan.budget, minimum.epsilon_output),
        }
    q = len(theta)
    index = triangle_index(q)
    hessian = release_matrix(plan.hessian, table, lambda eta, u: loss.curvature(eta, u) / loss.bound, theta, noise)
    largest = _largest_slope(plan, theta)
    squares = release_matrix(
        plan.covariance, table, lambda eta, u: (loss.residual(eta, u) / largest) ** 2, theta, noise
    )
    moments = plan.moments_of(loss.bound * hessian[index], theta)
    mean = plan.ridge * theta
    found = largest**2 * squares[index] - (0.0 if plan.removes_penalty else 1.0) * np.outer(mean, mean) / plan.n_rows
    values, vectors = np.linalg.eigh(found)
    meat = (vectors * np.maximum(values, 0.0)) @ vectors.T
    return ReleasedPerturbed(
        theta, moments, meat, None, costs | {HESSIAN: plan.hessian.cost, COVARIANCE: plan.covariance.cost}
    )


def _charge(budget: Budget, epsilon: float) -> Budget:
    if not budget.is_private:
        return budget
    return Budget(epsilon=epsilon) if budget.rho is None else Budget(rho=epsilon**2 / 2)


def _largest_slope(plan: WKLPlan, theta: NDArray[np.float64]) -> float:
    """Return the largest |f'| over all rows at a released parameter."""
    if not plan.loss.is_logistic:
        return 1.0
    reach = float(plan.predictors.ball.dual(theta[None])[0])
    return min(1.0, (1 + 1e-9) / (1 + math.exp(-min(reach, 700.0))))


def _release_output(plan: OutputPlan, loss: Loss, table: Table, noise: NoiseSource) -> NDArray[np.float64]:
    nothing = [Fraction(0)] * table.predictors.n_columns

    def statistic() -> NDArray[np.int64]:
        return on_lattice(minimize(table, loss, plan.ridge, nothing, 0.0, plan.tau), plan.bits)

    return release_integers(statistic, plan.noise, noise).astype(np.float64) * 2.0**-plan.bits
