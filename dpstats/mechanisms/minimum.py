"""Publishing the minimiser of a perturbed loss, with the distance to the exact minimiser paid for.

public    norm of the noise, rate, ridge, tolerance, lattice: the plan, with its cost recomputed
private   rows -> a point within tau / lam of the exact minimiser, certified -> multiples of 2**-bits
release   the random linear term; integer max-norm noise on the point
public    a parameter
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.mechanisms.lattice import TOO_SMALL
from dpstats.records.minimize import minimize, tolerance
from dpstats.records.predictors import Table
from dpstats.release.knorm import max_norm_sd
from dpstats.release.noise import ROUNDING, NoiseSource, real_error
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.losses import Loss
from dpstats.specification.perturbation import Perturbation, cost
from dpstats.specification.predictors import Ball, Predictors

FINE = 16.0
"""The lattice is that much finer than the tolerated distance, and no coarser than `FEWEST_BITS` say."""
FEWEST_BITS, MOST_BITS = 30, 50
LARGEST = 2**61


@dataclass(frozen=True, slots=True)
class MinimumPlan:
    """The release of a perturbed minimiser, fixed before a record is read (zone: public).

    Attributes
    ----------
    loss : Loss
        Of one record.
    ball : Ball
        Norm in which rows are at most 1 and the random linear term is drawn.
    perturbation : Perturbation
        Rate and ridge.
    tau : float
        Certified gradient norm.
    bits : int
        Lattice of step 2**-bits for the parameter.
    noise : NoisePlan
        Integer max-norm noise for the distance to the exact minimiser.
    output_variance : float
        Variance of that noise per coordinate, in units of the parameter; 0 without noise.
    epsilon_exact, epsilon_output : float
        What the exact minimiser and the distance to it cost.
    """

    loss: Loss
    ball: Ball
    perturbation: Perturbation
    tau: float
    bits: int
    noise: NoisePlan
    output_variance: float
    epsilon_exact: float
    epsilon_output: float


def plan_minimum(
    predictors: Predictors, loss: Loss, ball: Ball, perturbation: Perturbation, epsilon_output: float, n_rows: int
) -> MinimumPlan:
    """Plan the release of a perturbed minimiser.

    Parameters
    ----------
    predictors : Predictors
        The model's columns.
    loss : Loss
        Of one record.
    ball : Ball
        Norm of the noise.
    perturbation : Perturbation
        Rate and ridge.
    epsilon_output : float
        For the distance to the exact minimiser.
    n_rows : int
        Public length of the table.

    Raises
    ------
    BudgetError
        If the noise would not fit into 64-bit integers.

    Notes
    -----
    Given the exact minimiser x, the certified point minus x is a function of (table, x) in a ball of radius tau / lam
    for both of two neighbouring tables, so that it changes by at most 2 tau / lam in max-norm; rounding to integers
    adds half a step for each table. Adaptive composition: the two costs add.
    """
    tau = tolerance(predictors.row_size, n_rows, loss.bound)
    radius = tau / perturbation.ridge
    bits = min(MOST_BITS, max(FEWEST_BITS, math.ceil(math.log2(FINE / radius))))
    reach = 2 * radius * 2.0**bits + 1
    size = predictors.n_columns
    scale = float(np.nextafter(reach / epsilon_output * ROUNDING, np.inf))
    private = math.isfinite(perturbation.gamma)
    if private and not scale * (size + 40) < 2.0**60:
        raise BudgetError(TOO_SMALL)
    return MinimumPlan(
        loss,
        ball,
        perturbation,
        tau,
        bits,
        NoisePlan("max_norm", np.full(size, scale), np.full(size, reach)),
        (max_norm_sd(1.0, 1 / scale, size) * 2.0**-bits) ** 2 if private else 0.0,
        cost(loss, perturbation.gamma, predictors.row_size, perturbation.ridge) if private else math.inf,
        reach / scale,
    )


def release_minimum(plan: MinimumPlan, table: Table, noise: NoiseSource) -> NDArray[np.float64]:
    """Return the released parameter, shape (q,).

    Parameters
    ----------
    plan : MinimumPlan
        From `plan_minimum`.
    table : Table
        The rows; read only here.
    noise : NoiseSource
        Real or simulated noise, or none for an infinite budget.
    """
    released = release_integers(_perturbed_minimum(plan, table, noise), plan.noise, noise)
    return released.astype(np.float64) * 2.0**-plan.bits


def _perturbed_minimum(plan: MinimumPlan, table: Table, noise: NoiseSource) -> Callable[[], NDArray[np.int64]]:
    """Draw the random linear term and hide it in a closure, where no traceback shows it."""
    b = noise.real_vector(plan.ball, plan.perturbation.gamma)

    def statistic() -> NDArray[np.int64]:
        point = minimize(table, plan.loss, plan.perturbation.ridge, b, real_error(len(b)), plan.tau)
        return on_lattice(point, plan.bits)

    return statistic


def on_lattice(point: list[Fraction], bits: int) -> NDArray[np.int64]:
    """Round to multiples of 2**-bits and keep within 2**61 of them, in the point's zone; shape (q,)."""
    return np.array([max(-LARGEST, min(LARGEST, round(t * 2**bits))) for t in point], dtype=np.int64)
