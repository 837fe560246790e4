"""Joint tests of several linear hypotheses, in score form: the variance is evaluated under the hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from dpstats.inference.estimates import LeastSquares, ModelSpace, residual_vector
from dpstats.inference.inverse import identified_combinations, is_identified
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.monte_carlo import simulate_forms


@dataclass(frozen=True, slots=True)
class ScoreTest:
    """A joint test (zone: released).

    Attributes
    ----------
    statistic : float
        Chi-squared under the hypothesis if the noise is Gaussian.
    pvalue : float
        From the chi-squared law, or from 10,000 draws of the known Laplace law.
    df : int
        Number of hypotheses that are tested.
    is_floor : bool
        True if no draw exceeded the statistic, so that the p-value is only a bound.
    """

    statistic: float
    pvalue: float
    df: int
    is_floor: bool = False


def score_test(
    moments: NoisyMoments, space: ModelSpace, fit: LeastSquares, rows: NDArray[np.float64], values: NDArray[np.float64]
) -> ScoreTest:
    """Test rows @ beta = values jointly.

    Parameters
    ----------
    moments : NoisyMoments
        Released sums.
    space : ModelSpace
        Model columns.
    fit : LeastSquares
        Their fit.
    rows : ndarray
        Shape (m, q), of full rank.
    values : ndarray
        Shape (m,), in coded units of the response.

    Notes
    -----
    With d = C beta-tilde - values and the restricted estimate beta_0 = beta-tilde - C1 C'(C C1 C')^-1 d, the statistic
    is d' W^-1 d, W the covariance of C beta-tilde with the noise evaluated at beta_0 (methods, 1.10). Without noise,
    what the data leave unidentified of the hypotheses is left out.
    """
    C = np.asarray(np.linalg.solve(space.r.T, rows.T).T, dtype=np.float64)
    if fit.null is not None:
        identified = identified_combinations(C, fit.null)
        if not len(identified):
            return ScoreTest(0.0, 1.0, len(rows))
        C, values = identified @ C, identified @ values
    distance = C @ (fit.origin + fit.gamma) - values
    spread = fit.covariance @ C.T
    restricted = fit.gamma - spread @ np.linalg.pinv(C @ spread, hermitian=True) @ distance
    at_null = residual_vector(restricted, space)
    forms = moments.noise_of(moments.forms((space.q @ fit.inverse @ C.T).T, at_null))
    sampling = C @ fit.sampling @ C.T
    W = np.linalg.pinv(sampling + (forms * moments.variances) @ forms.T, hermitian=True)
    statistic = float(distance @ W @ distance)
    if not all(is_identified(fit, row) for row in C):
        return ScoreTest(statistic, 1.0, len(rows))
    if moments.is_normal:
        return ScoreTest(statistic, float(chdtrc(len(C), statistic)), len(C))
    draws = simulate_forms(moments, forms, sampling)
    exceeding = int((((draws @ W) * draws).sum(axis=1) >= statistic).sum())
    return ScoreTest(statistic, (1 + exceeding) / (1 + len(draws)), len(C), exceeding == 0)
