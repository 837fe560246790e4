"""A later stage of a fit, for robust standard errors: squared scores at the released estimate.

released  estimate, contrasts, clip, ranges: what is measured
private   rows -> (l'z)^2 psi(r)^2 of each form l, rounded to {0, ..., K} -> exact sums
release   max-norm noise (pure), or Gaussian noise scaled to each form
public    ratios of robust to model-based variances, or the whole robust covariance
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

LITTLE = 0.1
"""Noise that is this share of a variance leaves it, and an interval, nearly as it is."""
MOST_PAIRED = 100
"""Of so many coefficients the whole covariance is measured: beyond, there are too many sums to be read."""
QUICK = 8
"""So many sums for each unit of the scale: max-norm noise of more is drawn by too many attempts."""


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
        H with noise, one for each form.
    sd : ndarray
        Standard deviation of the noise, one for each form.
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
    if not _fits(stage, n_columns):
        raise BudgetError(
            f"share={stage.share:g} of {stage.budget} is too little for what standard errors need; spend more"
        )


def _fits(stage: ScoreStage, n_sums: int) -> bool:
    """Tell whether the noise of so many sums fits into 64-bit integers."""
    strength = stage_strength(stage.budget, stage.law, stage.share)
    return _steps(stage.n_rows) / strength * (n_sums + 2) * 40 < 2.0**62


def _steps(n_rows: int) -> int:
    """Return K, the largest integer that one row adds; n K stays below 2**62."""
    return int(2 ** min(30, 61 - math.ceil(math.log2(max(n_rows, 2)))))


def affordable(
    target_of: Callable[[bool], ScoreTarget], n_columns: int, stage: ScoreStage, first: float | None = None
) -> ScoreTarget:
    """Return what to measure: the whole covariance where its noise leaves each variance nearly as it is.

    Parameters
    ----------
    target_of : callable
        Returns the target of the whole covariance, or of single coefficients.
    n_columns : int
        q.
    stage : ScoreStage
        Law and budget.
    first : float, optional
        How large the first sum is taken to be; by default as the model has it.

    Notes
    -----
    A function of the first release and of public facts. For the whole covariance many more sums share the budget.
    """
    if 2 <= n_columns <= MOST_PAIRED:
        whole = target_of(True)
        if not stage.budget.is_private or _is_little(whole, stage, first):
            return whole
    return target_of(False)


def _is_little(target: ScoreTarget, stage: ScoreStage, first: float | None) -> bool:
    """Tell whether the noise is little, can be drawn in little time and fits into 64-bit integers."""
    noise, sizes = _noise(target, stage), target.model.copy()
    if first is not None:
        sizes[0] = first
    drawn = stage.law == "gaussian" or len(target.forms) <= QUICK * float(noise.plan.scales[0])
    return drawn and _fits(stage, len(target.forms)) and bool((noise.sd <= LITTLE * sizes).all())


@dataclass(frozen=True, slots=True)
class _Noise:
    """Noise of the sums (zone: public, but for what was released before).

    Attributes
    ----------
    plan : NoisePlan
        Law, scales and distances, in whole steps.
    unit : ndarray
        What a step of each form is.
    sd : ndarray
        Standard deviation of the noise of each form.
    cost : Budget
        epsilon, or rho = mu^2 / 2.
    """

    plan: NoisePlan
    unit: NDArray[np.float64]
    sd: NDArray[np.float64]
    cost: Budget


def _noise(target: ScoreTarget, stage: ScoreStage) -> _Noise:
    """Scale the noise to a target.

    One row moves coordinate j by at most K steps, in either direction. Pure: the cube [-K, K]^m is the unit ball of
    the max norm times K. Gaussian: in units of weight_j / U_j the squared change is at most the smaller of
    sum (U_j / weight_j)^2 and 2 (joint size)^2, because two non-negative vectors differ by at most sqrt 2 times the
    larger norm; rounding adds at most one step per coordinate.
    """
    steps = _steps(stage.n_rows)
    size = len(target.forms)
    strength = stage_strength(stage.budget, stage.law, stage.share)
    unit = target.ranges / steps
    distances = np.full(size, float(steps))
    if stage.law == "laplace":
        scales = np.full(size, np.nextafter(steps / strength * ROUNDING, np.inf))
        sd = unit * max_norm_sd(1.0, 1 / scales[0], size)
        return _Noise(NoisePlan("max_norm", scales, distances), unit, sd, Budget(epsilon=float(steps / scales[0])))
    relative = target.ranges / target.weights
    joint = math.sqrt(2) * target.joint_size * (1 + 1e-9) + float(np.linalg.norm(unit / target.weights))
    change = min(float(np.linalg.norm(relative)), joint)
    scales = gaussian_scale(target.weights * change / strength / unit)
    smallest = (scales**2 - (TRANSFER_VARIANCE if stage.budget.delta else 0.0)) * (unit / target.weights) ** 2
    cost = Budget(rho=change**2 / float(smallest.min()) / 2)
    return _Noise(NoisePlan("gaussian", scales, distances), unit, unit * scales, cost)


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
        Reads the records; maps K to one sum per form, to which a row adds a whole number from 0 to K, in units of
        range / K.
    noise : NoiseSource
        Real, simulated or none.
    """
    steps, planned = _steps(stage.n_rows), _noise(target, stage)
    released = release_integers(lambda: statistic(steps), planned.plan, noise)
    if not stage.budget.is_private:
        return ScoreRelease(released * planned.unit, np.zeros(len(planned.sd)), stage.budget)
    return ScoreRelease(released * planned.unit, planned.sd, planned.cost)
