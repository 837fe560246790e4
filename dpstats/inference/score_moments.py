"""The moment vector of a perturbed loss at its released minimiser, with the known law of all noise in it.

At the released parameter theta~ let T(delta) = shift - H~ delta, where H~ is a noisy Hessian and shift is lam theta~
for the coefficients without a ridge, 0 for those with it. At the truth theta_0 = theta~ + delta,

    T(delta) = U(theta_0) - b - E delta + A nu + O(n ||delta||^2) :

U the score of the data, b the random linear term, E the noise of H~, nu noise added to theta itself and A the
objective's curvature. This has the form of least squares from noisy moments, H~ for X'X and shift for X'y, so that one
machinery serves both (`dpstats.inference.moment_test`).

Where nu is the only noise in theta~ and nothing is stepped, theta~ is the minimiser plus nu exactly, so that delta =
-(nu + H^-1 U) and, with A = H~,

    T(delta) = U + H~ nu + E H^-1 U :

E acts on the sampling error alone, and its part, uncorrelated with the others, is counted there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dpstats.inference.critical_values import NORMAL, Law
from dpstats.inference.estimates import ModelSpace, spread_of
from dpstats.inference.moments import Draws, NoisyMoments
from dpstats.inference.monte_carlo import draws_in_ball, simulated_law, sum_of_laplace
from dpstats.specification.predictors import Ball

NEGLIGIBLE = 0.01
"""Share of a statistic's variance up to which a noise that is not normal is taken for one."""


@dataclass(frozen=True, slots=True)
class ScoreMoments(NoisyMoments):
    """Noisy Hessian and shift (zone: released); see the module.

    The values are the entries of H~, then those of the shift (the last coded column), then zeros that stand for nu.

    Attributes
    ----------
    linear : Ball or None
        Norm of the random linear term b; None if there is none.
    direct : Ball or None
        Norm of the noise nu that was added to theta; None if it is normal.
    push : ndarray
        A, shape (q, q), symmetric.
    is_output : bool
        True if nu is the only noise in theta and nothing is stepped; A is then H~, and E in no linear form.
    thinning : int
        Of the simulated draws only each so-manieth is used.
    """

    linear: Ball | None = None
    direct: Ball | None = None
    push: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    is_output: bool = False
    thinning: int = 1

    @property
    def size(self) -> int:
        """Number of coefficients, q."""
        return len(self.index) - 1

    @property
    def parts(self) -> tuple[slice, slice, slice]:
        """Positions of the noises of H~, b and nu."""
        q, total = self.size, len(self.values)
        return slice(0, total - 2 * q), slice(total - 2 * q, total - q), slice(total - q, total)

    @property
    def is_normal(self) -> bool:
        """True if all noise is normal, or there is none."""
        others = self.linear is not None or self.direct is not None
        return (self.law == "gaussian" and not others) or not self.variances.any()

    def noise_of(self, forms: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficients of linear forms of the values on the noises themselves, shape (..., K)."""
        hessian, linear, direct = self.parts
        own = forms.copy()
        own[..., direct] = forms[..., linear] @ self.push
        if self.is_output:
            own[..., hessian] = 0.0
        return own

    def with_hessian_noise(
        self, score: NDArray[np.float64], sampling: NDArray[np.float64], space: ModelSpace
    ) -> NDArray[np.float64]:
        """Return the covariance of U, to which that of E H^-1 U is added where no linear form has it.

        Parameters
        ----------
        score, sampling : ndarray
            Covariances of U and of H^-1 U in the basis, shape (q, q).
        space : ModelSpace
            The model's columns.
        """
        return score + spread_of(replace(self, is_output=False), space, sampling) if self.is_output else score

    def standard_law(self, form: NDArray[np.float64], sampling: float) -> Law:
        """Return the law of a linear form of the noises plus a normal, standardised; simulated unless it is normal."""
        shares = self.variances * form**2
        total = sampling + float(shares.sum())
        if not total > 0 or not self.variances.any():
            return NORMAL
        parts: list[NDArray[np.float64]] = []
        drawn = 0.0
        for part, ball in zip(self.parts, (None, self.linear, self.direct), strict=True):
            share = float(shares[part].sum())
            if share <= NEGLIGIBLE * total:
                continue
            if ball is not None:
                parts.append(self._draws(ball, part)[:: self.thinning] @ (self._unit(ball, part) * form[part]))
            elif part.start == 0 and self.law == "laplace":
                parts.append(sum_of_laplace(np.sqrt(shares[part]))[:: self.thinning])
            else:
                continue
            drawn += share
        if not parts:
            return NORMAL
        shortest = min(map(len, parts))
        draws = np.sum([part[:shortest] for part in parts], axis=0)
        return simulated_law(draws / np.sqrt(total), max(1 - drawn / total, 0.0))

    def _draws(self, ball: Ball, part: slice) -> NDArray[np.float64]:
        """Return draws of b or nu at rate 1; of the latter in reverse, so that two equal norms are independent."""
        return draws_in_ball(ball)[:: 1 if part == self.parts[1] else -1]

    def _unit(self, ball: Ball, part: slice) -> float:
        """Return 1 / rate of a part's noise."""
        return float(np.sqrt(self.variances[part][0] / ball.variances(1.0)[0]))

    def draw_noise(self, rng: Draws, size: int, used: NDArray[np.intp]) -> NDArray[np.float64]:
        """Draw the noises of some atoms from their known law, shape (size, len(used))."""
        noise = NoisyMoments.draw_noise(self, rng, size, np.arange(len(self.values)))
        for part, ball in zip(self.parts[1:], (self.linear, self.direct), strict=True):
            if ball is not None and self.variances[part].any():
                noise[:, part] = self._unit(ball, part) * self._draws(ball, part)[:size]
            else:
                noise[:, part] = rng.normal(size=(size, self.size)) * np.sqrt(self.variances[part])
        return noise[:, used]
