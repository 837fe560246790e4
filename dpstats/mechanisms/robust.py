"""A later stage of a fit, for robust standard errors: squared scores at the released estimate.

released  estimate, contrasts, clip, ranges: what is measured
private   rows -> (l'z)^2 psi(r)^2, rounded to {0, ..., K} -> exact sums
release   max-norm noise (pure), or Gaussian noise scaled to each coefficient
public    ratios of robust to model-based variances
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import BudgetError
from dpstats.inference.robust import ScoreTarget
from dpstats.privacy.notions import Budget, stage_strength
from dpstats.release.knorm import max_norm_sd
from dpstats.release.noise import ROUNDING, TRANSFER_VARIANCE, NoiseSource, gaussian_scale
from dpstats.release.release import NoisePlan, release_integers
from dpstats.specification.sensitivity import NoiseKind


@dataclass(frozen=True, slots=True)
class ScoreStage:
    """Noise and budget of the stage (zone: public).

    Attributes
    ----------
    law : {"laplace", "gaussian"}
        Max-norm noise goes with a pure budget, Gaussian noise with the others.
    budget : Budget
        Of which the stage gets a share.
    share : float
        Of epsilon, or of mu^2.
    n_rows : int
        Public length of the table.
    """

    law: NoiseKind
    budget: Budget
    share: float
    n_rows: int


@dataclass(frozen=True, slots=True)
class ScoreRelease:
    """Noisy squared scores (zone: released).

    Attributes
    ----------
    scores : ndarray
        H_j with noise, shape (q,).
    sd : ndarray
        Standard deviation of the noise, shape (q,).
    cost : Budget
        epsilon, or rho = mu^2 / 2.
    """

    scores: NDArray[np.float64]
    sd: NDArray[np.float64]
    cost: Budget


def require_measurable(stage: ScoreStage, n_columns: int) -> None:
    """Refuse, before anything is read, a share so small that the noise would not fit into 64-bit integers.

    Raises
    ------
    BudgetError
        From the budget, the length and the number of columns only.
    """
    strength = stage_strength(stage.budget, stage.law, stage.share)
    if _steps(stage.n_rows) / strength * (n_columns + 2) * 40 >= 2.0**62:
        raise BudgetError(
            f"share={stage.share:g} of {stage.budget} is too little for what standard errors need; spend more"
        )


def _steps(n_rows: int) -> int:
    """Return K, the largest integer that one row adds; n K stays below 2**62."""
    return int(2 ** min(30, 61 - math.ceil(math.log2(max(n_rows, 2)))))


def release_scores(
    target: ScoreTarget, stage: ScoreStage, statistic: Callable[[int], NDArray[np.int64]], noise: NoiseSource
) -> ScoreRelease:
    """Read the table again and release the squared scores.

    Parameters
    ----------
    target : ScoreTarget
        What to measure; from the first release.
    stage : ScoreStage
        Law and budget.
    statistic : callable
        Reads the records; maps K to one sum per coefficient, to which a row adds a whole number from 0 to K, in units
        of range / K.
    noise : NoiseSource
        Real, simulated or none.

    Notes
    -----
    One row moves coordinate j by at most K steps, in either direction. Pure: the cube [-K, K]^q is the unit ball of
    the max norm times K. Gaussian: in units of weight_j / U_j the squared change is at most the smaller of
    sum (U_j / weight_j)^2 and 2 (joint size)^2, because two non-negative vectors differ by at most sqrt 2 times the
    larger norm, which is at most the sum of the entries; rounding adds at most one step per coordinate.
    """
    steps = _steps(stage.n_rows)
    size = len(target.ranges)
    strength = stage_strength(stage.budget, stage.law, stage.share)
    unit = target.ranges / steps
    if stage.law == "laplace":
        scales = np.full(size, np.nextafter(steps / strength * ROUNDING, np.inf))
        noise_plan = NoisePlan("max_norm", scales, np.full(size, float(steps)))
        sd = unit * max_norm_sd(1.0, 1 / scales[0], size)
        cost = Budget(epsilon=float(steps / scales[0]))
    else:
        relative = target.ranges / target.weights
        joint = math.sqrt(2) * target.joint_size * (1 + 1e-9) + float(np.linalg.norm(unit / target.weights))
        change = min(float(np.linalg.norm(relative)), joint)
        scales = gaussian_scale(target.weights * change / strength / unit)
        noise_plan = NoisePlan("gaussian", scales, np.full(size, float(steps)))
        sd = unit * scales
        smallest = (scales**2 - (TRANSFER_VARIANCE if stage.budget.delta else 0.0)) * (unit / target.weights) ** 2
        cost = Budget(rho=change**2 / float(smallest.min()) / 2)
    released = release_integers(lambda: statistic(steps), noise_plan, noise)
    private = stage.budget.is_private
    return ScoreRelease(released * unit, sd if private else np.zeros(size), cost if private else stage.budget)
