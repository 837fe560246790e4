"""R-squared from noisy moments."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpstats.inference.estimates import LeastSquares, ModelSpace, empty_residual
from dpstats.inference.moments import NoisyMoments


@dataclass(frozen=True, slots=True)
class RSquared:
    """Noisy R-squared (zone: released).

    Attributes
    ----------
    value, adjusted : float
        Clipped to [0, 1]; nan where the noise in the total sum of squares hides it.
    """

    value: float
    adjusted: float


def r_squared(moments: NoisyMoments, space: ModelSpace, fit: LeastSquares) -> RSquared:
    """Return R-squared from released numbers; centred if the model spans the constant, as in statsmodels.

    Notes
    -----
    TSS = y'y - ((sum y)^2 - v) / W, v the noise variance of the sum, W the sum of weights, which is the number n_c of
    complete rows without weights; R-squared = 1 - (n_c - q) sigma^2 / TSS.
    """
    n = max(moments.n_complete, 1.0)
    response = empty_residual(space)
    form = moments.forms(response[None], response)[0]
    total, variance = float(form @ moments.values), moments.variance_of(form)
    if space.has_constant:
        mean_form = moments.forms(space.constant[None], response)[0]
        mean = float(mean_form @ moments.values)
        mean_variance = moments.variance_of(mean_form)
        weight = max(float(moments.forms(space.constant[None], space.constant)[0] @ moments.values), 1.0)
        total -= (mean**2 - mean_variance) / weight
        variance += (2 * mean / weight) ** 2 * mean_variance
    unresolved = fit.sigma2_sd > 0 and (fit.sigma2_clamped or fit.df_resid * fit.sigma2_sd > total / 4)
    if total <= 0 or math.sqrt(variance) > total / 2 or unresolved:
        return RSquared(math.nan, math.nan)
    ratio = fit.df_resid * fit.sigma2 / total
    df_total = max(n - space.has_constant, 1.0)
    return RSquared(*(min(max(1 - share, 0.0), 1.0) for share in (ratio, ratio * df_total / fit.df_resid)))
