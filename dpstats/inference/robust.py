"""Heteroskedasticity-consistent standard errors from a second, small release (White 1980; methods, 1.11).

At the released estimate, with l_j = L'A^-1 c_j for each coefficient c_j, the statistic is
H_j = sum_i (l_j'z_i)^2 psi_c(r_i)^2. l_j, the residual's coefficients and the clip c come from the first release, so
they are constants here. A row adds between 0 and U_j, so that replacing it moves H within prod_j [-U_j, U_j]: there is
no factor 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.estimates import LeastSquares, ModelSpace
from dpstats.inference.moments import NoisyMoments
from dpstats.specification.blocks import Block

CLIP = 4.0
RATIO_LIMITS = (0.2, 6.0)


@dataclass(frozen=True, slots=True)
class ScoreTarget:
    """What the second release measures: functions of the first release and of public facts (zone: released).

    Attributes
    ----------
    leverage : ndarray
        Rows l_j, shape (q, D_x).
    residual : ndarray
        ga, shape (D,): the residual of a coded row.
    clip : float
        c, in units of half the response's range: four residual standard deviations, the estimate's own noise
        included, or the public range of a residual if that is smaller; without noise the latter, so that nothing is
        clipped.
    ranges : ndarray
        U_j: largest term of one row, shape (q,).
    model : ndarray
        m_j: model-based variance, shape (q,).
    row_size : float
        Largest squared norm of a coded regressor row.
    """

    leverage: NDArray[np.float64]
    residual: NDArray[np.float64]
    clip: float
    ranges: NDArray[np.float64]
    model: NDArray[np.float64]
    row_size: float

    @property
    def weights(self) -> NDArray[np.float64]:
        """Unit in which coefficient j is measured: m_j, but at least one row's largest term, shape (q,)."""
        return np.maximum(self.model, self.ranges)

    @property
    def joint_size(self) -> float:
        """Largest sum_j (l_j'z)^2 psi^2 / weight_j of one row."""
        scaled = self.leverage / np.sqrt(self.weights)[:, None]
        return self.clip**2 * self.row_size * float(np.linalg.eigvalsh(scaled @ scaled.T)[-1])


def score_target(
    moments: NoisyMoments, space: ModelSpace, fit: LeastSquares, blocks: Sequence[Block], row_size: float
) -> ScoreTarget:
    """Fix what the second release measures, for every coefficient of the model.

    Parameters
    ----------
    moments, space, fit
        The first release and its fit.
    blocks : sequence of Block
        Coded regressor blocks.
    row_size : float
        Largest squared norm of a coded regressor row, lattice rounding included.
    """
    leverage = np.asarray(np.linalg.solve(space.r, (space.q @ fit.inverse).T), dtype=np.float64)
    uncertain = fit.sigma2 + max(float(np.trace(fit.gram.positive_part @ fit.covariance)), 0.0) / max(
        moments.n_complete, 1.0
    )
    reach = float(largest_products(np.abs(fit.residual[None, :-1]), blocks)[0]) + 1.0
    clip = min(CLIP * math.sqrt(uncertain), reach) if moments.variances.any() else reach
    widest = largest_products(np.abs(leverage), blocks) ** 2
    by_norm = (leverage**2).sum(axis=1) * row_size
    back = np.linalg.inv(space.r)
    model = np.diag(back @ fit.sampling @ back.T)
    floor = np.finfo(float).tiny ** 0.5
    return ScoreTarget(
        leverage,
        fit.residual,
        clip,
        np.asarray(np.maximum(clip**2 * np.minimum(widest, by_norm), floor), dtype=np.float64),
        np.asarray(np.maximum(model, floor), dtype=np.float64),
        row_size,
    )


def largest_products(sizes: NDArray[np.float64], blocks: Sequence[Block]) -> NDArray[np.float64]:
    """Return the largest |l'z| over complete rows: per block the largest column, or the norm of a vector block.

    Parameters
    ----------
    sizes : ndarray
        |l|, shape (m, D_x).
    blocks : sequence of Block
        Coded regressor blocks, in order.
    """
    total = np.zeros(len(sizes))
    start = 0
    for block in blocks:
        part = sizes[:, start : start + block.n_columns]
        total += np.sqrt((part**2).sum(axis=1)) if block.vectors else part.max(axis=1)
        start += block.n_columns
    return total


def robust_ratios(
    target: ScoreTarget,
    released: NDArray[np.float64],
    sd: NDArray[np.float64],
    correction: float,
    limits: tuple[float, float] = RATIO_LIMITS,
) -> NDArray[np.float64]:
    """Return the ratio of each coefficient's robust sampling variance to its model-based one, shape (q,).

    Parameters
    ----------
    target : ScoreTarget
        What was measured.
    released : ndarray
        Noisy H, shape (q,).
    sd : ndarray
        Standard deviation of its noise, shape (q,).
    correction : float
        1 for HC0, n / (n - q) for HC1.
    limits : tuple of float
        Between which a ratio is kept.

    Notes
    -----
    The noisy value is shrunk towards the model by w = (m/2)^2 / ((m/2)^2 + sd^2).
    """
    trust = (target.model / 2) ** 2 / ((target.model / 2) ** 2 + sd**2)
    shrunk = target.model + trust * (correction * released - target.model)
    return np.clip(shrunk / target.model, *limits)


def with_robust_sampling(fit: LeastSquares, space: ModelSpace, ratios: NDArray[np.float64]) -> LeastSquares:
    """Return the fit with its sampling covariance rescaled to robust variances, correlations kept."""
    back = np.linalg.inv(space.r)
    stretch = np.sqrt(ratios)
    beta = (back @ fit.sampling @ back.T) * np.outer(stretch, stretch)
    sampling = space.r @ beta @ space.r.T
    return replace(fit, sampling=sampling, covariance=fit.covariance - fit.sampling + sampling)
