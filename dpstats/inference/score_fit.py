"""Coefficients of a loss from its released perturbed minimiser and noisy Hessian: estimate and covariance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.estimates import LeastSquares, ModelSpace, Solution, gram_of, noise_covariance, residual_vector
from dpstats.inference.inverse import SINGULAR, SMALLEST, invert
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.score_moments import ScoreMoments

LARGE_STEP = 1.0
"""Change of the predictor, over the box, beyond which the expansion about the released minimiser is doubtful."""


def solve_scores(moments: NoisyMoments, space: ModelSpace, theta: NDArray[np.float64], floor: float = 0.0) -> Solution:
    """Make one Newton step from the released minimiser to the coefficients.

    Parameters
    ----------
    moments : NoisyMoments
        Noisy Hessian and shift.
    space : ModelSpace
        The model's columns.
    theta : ndarray
        Released minimiser, shape (q,).
    floor : float
        Without noise: curvature up to which a direction counts as not identified, as where classes are separated.

    Returns
    -------
    Solution
        With ``origin`` the released minimiser and ``gamma`` the step, both in the basis.

    Notes
    -----
    delta = H^-1 shift. The step shown differs where the noise exceeds the signal (kappa above 1): there the curvature
    is taken for at least the noise's size, so that the estimate stays near the released minimiser.
    """
    hessian = gram_of(moments, space)
    noisy = bool(moments.variances.any())
    found = invert(hessian, noisy=noisy, floor=floor)
    shift = space.q.T @ moments.matrix[:-1, -1]
    gamma = shown = found.inverse @ shift
    if noisy:
        level = max(_noise_level(moments), SINGULAR * np.abs(hessian.values).max(), SMALLEST)
        shown = (hessian.vectors / np.maximum(hessian.values, level)) @ hessian.vectors.T @ shift
    return Solution(gamma, shown, found.inverse, hessian, found.singular, null=found.null, origin=space.q.T @ theta)


def with_score_covariance(
    moments: NoisyMoments, space: ModelSpace, solution: Solution, meat: NDArray[np.float64] | None = None
) -> LeastSquares:
    """Attach the covariance to a Newton step.

    Parameters
    ----------
    moments, space
        From which it was solved.
    solution : Solution
        From `solve_scores`.
    meat : ndarray, optional
        Covariance of the score, shape (q, q); by default the Hessian, as for a correctly specified logit.

    Returns
    -------
    LeastSquares
        With ``sigma2`` 1.

    Notes
    -----
    Covariance H^-1 (score covariance + cov b + noise of H~ at delta + A cov(nu) A) H^-1.
    """
    inverse = solution.inverse
    score = solution.gram.positive_part if meat is None else space.q.T @ meat @ space.q
    if isinstance(moments, ScoreMoments):
        score = moments.with_hessian_noise(score, inverse @ score @ inverse, space)
    sampling = inverse @ score @ inverse
    residual = residual_vector(solution.gamma, space)
    noise = noise_covariance(moments, space, residual)
    return LeastSquares.of(solution, sampling, residual, noise)


def _noise_level(moments: NoisyMoments) -> float:
    """Return about the spectral norm of the Hessian's noise, 2 sqrt(q) times the sd of an entry."""
    used = np.unique(moments.index[:-1, :-1])
    spread = moments.variances[used[used >= 0]]
    return 2 * float(np.sqrt((len(moments.index) - 1) * np.median(spread)))


def is_large_step(fit: LeastSquares, space: ModelSpace, reach: float) -> bool:
    """Tell whether the step changes some row's predictor by more than 1; `reach` is the largest norm of a row."""
    return bool(reach * np.linalg.norm(fit.gamma) > LARGE_STEP)
