"""Intervals and p-values for contrasts, by a test that accounts for the noise in X'X (generalised Fieller).

For a contrast c'beta and a shift t, the statistic a'T at beta(t) = beta-tilde + t v, with a = A^-1 c and
v = C1 c / c'C1 c, equals -t exactly, and its noise has variance q(t) = q0 + q1 t + q2 t^2. Values with t^2 > z^2 q(t)
are rejected. The set is an interval if and only if z^2 q2 < 1; otherwise it is reported as the whole line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.critical_values import Law
from dpstats.inference.estimates import LeastSquares, ModelSpace, Solution
from dpstats.inference.inverse import is_identified
from dpstats.inference.moments import NoisyMoments


@dataclass(frozen=True, slots=True)
class Contrast:
    """Inference for one contrast, in coded units of the response (zone: released).

    Attributes
    ----------
    estimate : float
        c'beta-tilde, the centre of the test.
    shown : float
        Bias-corrected estimate, as printed.
    sampling : float
        Sampling part of q0.
    q0, q1, q2 : float
        Coefficients of the noise variance along the path.
    law : Law
        Law of the standardised noise.
    unidentified : bool
        True if the moment matrix is singular: no value is ever rejected.
    trimmed : bool
        True if directions were left out of the fit, so that it has no standard error.
    """

    estimate: float
    shown: float
    sampling: float
    q0: float
    q1: float
    q2: float
    law: Law
    unidentified: bool
    trimmed: bool = False

    @property
    def sd(self) -> float:
        """Standard error of the estimate; nan where directions were left out of the fit."""
        return math.nan if self.trimmed else math.sqrt(self.q0)

    @property
    def sampling_sd(self) -> float:
        """The part of `sd` that a non-private fit would have too."""
        return math.nan if self.trimmed else math.sqrt(self.sampling)

    @property
    def privacy_sd(self) -> float:
        """The part of `sd` that is privacy noise."""
        return math.nan if self.trimmed else math.sqrt(max(self.q0 - self.sampling, 0.0))

    @property
    def signal_to_noise(self) -> float:
        """SNR_c = 1 / sqrt(q2): the interval at critical value z is bounded if and only if SNR_c > z."""
        if self.unidentified:
            return 0.0
        return math.inf if self.q2 <= 0 else 1 / math.sqrt(self.q2)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the confidence interval of level 1 - alpha, perhaps (-inf, inf)."""
        z = self.law.critical_value(alpha)
        return (
            fieller_interval(self.estimate, self.q0, self.q1, self.q2, z)
            if self.signal_to_noise > z
            else (-math.inf, math.inf)
        )

    def p_value(self, value: float) -> float:
        """Return the two-sided p-value of c'beta = value, dual to `interval` at every level."""
        return (
            1.0
            if self.unidentified
            else self.law.tail(capped_statistic(value - self.estimate, self.q0, self.q1, self.q2))
        )


def fieller_interval(estimate: float, q0: float, q1: float, q2: float, z: float) -> tuple[float, float]:
    """Return {estimate + t : t^2 <= z^2 (q0 + q1 t + q2 t^2)}, the whole line unless z^2 q2 < 1.

    Examples
    --------
    >>> [round(end, 5) for end in fieller_interval(0.0, 1.0, 0.4, 0.05, 1.959964)]
    [-1.42792, 3.32981]
    """
    lead = 1 - z**2 * q2
    if lead <= 0:
        return -math.inf, math.inf
    middle = z**2 * q1
    root = math.sqrt(max(middle**2 + 4 * lead * z**2 * q0, 0.0))
    return estimate + (middle - root) / (2 * lead), estimate + (middle + root) / (2 * lead)


def capped_statistic(t: float, q0: float, q1: float, q2: float) -> float:
    """Return min(|t| / sqrt(q(t)), 1 / sqrt(q2)); without the cap an unbounded interval could go with a rejection."""
    cap = math.inf if q2 <= 0 else 1 / math.sqrt(q2)
    variance = q0 + q1 * t + q2 * t**2
    if variance <= 0:
        return 0.0 if t == 0 else cap
    return min(abs(t) / math.sqrt(variance), cap)


def shown_values(space: ModelSpace, fit: Solution, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the bias-corrected estimates of contrasts rows @ beta, shape (m,), in coded units of the response.

    Parameters
    ----------
    space, fit, rows
        As for `contrasts`, which adds all that inference needs.
    """
    return np.asarray(rows @ np.linalg.solve(space.r, fit.origin + fit.shown), dtype=np.float64)


def contrasts(moments: NoisyMoments, space: ModelSpace, fit: LeastSquares, rows: NDArray[np.float64]) -> list[Contrast]:
    """Return the inference for contrasts rows @ beta, in coded units of the response.

    Parameters
    ----------
    moments : NoisyMoments
        Released sums.
    space : ModelSpace
        Model columns.
    fit : LeastSquares
        Their fit.
    rows : ndarray
        Shape (m, q), contrasts of the coefficients of the model columns.
    """
    in_basis, shown = np.linalg.solve(space.r.T, rows.T), shown_values(space, fit, rows)
    leverage = fit.inverse @ in_basis
    forms = moments.noise_of(moments.forms((space.q @ leverage).T, fit.residual))
    sampling = np.maximum(np.einsum("im,im->m", in_basis, fit.sampling @ in_basis), 0.0)
    spread = fit.covariance @ in_basis
    variances = np.einsum("im,im->m", in_basis, spread)
    paths = np.divide(spread, variances, out=np.zeros_like(spread), where=variances > 0)
    turns = moments.noise_of(moments.paired_forms((space.q @ leverage).T, -(space.q @ paths).T))
    found = []
    for m in range(len(rows)):
        h0, turn, v = forms[m], turns[m], moments.variances
        part = float(sampling[m])
        found.append(
            Contrast(
                estimate=float(in_basis[:, m] @ (fit.origin + fit.gamma)),
                shown=float(shown[m]),
                sampling=part,
                q0=part + float(v @ h0**2),
                q1=2 * float(v @ (h0 * turn)),
                q2=float(v @ turn**2),
                law=moments.standard_law(h0, part),
                unidentified=not is_identified(fit, np.asarray(in_basis[:, m], dtype=np.float64)),
                trimmed=fit.trimmed,
            )
        )
    return found
