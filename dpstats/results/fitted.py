"""Coefficients, standard errors and sizes of a linear model fitted to released moments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import OptionError, shown
from dpstats.inference.diagnostics import kappa
from dpstats.inference.estimates import LeastSquares, ModelSpace, Solution
from dpstats.inference.moment_test import Contrast, contrasts, shown_values
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.r_squared import RSquared, r_squared
from dpstats.inference.robust import RobustSampling, with_robust_sampling
from dpstats.privacy.cost import PrivacyCost
from dpstats.results.contrast_test import check_alpha
from dpstats.results.model_info import ModelInfo
from dpstats.results.objective_release import ObjectiveRelease
from dpstats.results.perturbed_release import PerturbedRelease
from dpstats.results.release import MomentRelease
from dpstats.specification.design import Design
from dpstats.specification.remember import remembered
from dpstats.specification.view import ModelView


@dataclass(frozen=True, slots=True)
class RobustScale:
    """Outcome of the second release of a fit with robust standard errors (zone: released).

    Attributes
    ----------
    cov_type : str
        "HC0" or "HC1", or "gradient" where the release itself holds the score's covariance.
    sampling : RobustSampling or None
        What replaces the sampling part of the covariance; None if nothing does.
    """

    cov_type: str
    sampling: RobustSampling | None


@dataclass(frozen=True, slots=True)
class RowsSeen:
    """A count of complete rows as noisy sums have it (zone: released).

    Attributes
    ----------
    value : float
        Rows.
    sd : float
        Standard deviation of its noise.
    """

    value: float
    sd: float


@remembered
def _index(names: tuple[str, ...]) -> pd.Index:
    """Return texts as an index, which takes longer to make than the coefficients of a small model."""
    return pd.Index(names)


class FittedModel:
    """The estimates of a private linear model and their uncertainty (zone: released).

    Parameters
    ----------
    release : MomentRelease, ObjectiveRelease or PerturbedRelease
        The released sums.
    view : ModelView
        The model's columns in terms of the released ones.
    robust : RobustScale, optional
        Outcome of the second release, if there was one.
    """

    use_t = False

    def __init__(
        self,
        release: MomentRelease | ObjectiveRelease | PerturbedRelease,
        view: ModelView,
        robust: RobustScale | None = None,
    ) -> None:
        self.release = release
        self.model = ModelInfo(view.design.formula, view.design.endog_name, view.design.exog_names)
        self._view = view
        self._robust = robust

    # -- what was fitted ---------------------------------------------------------------------------------------------

    @property
    def design(self) -> Design:
        """The model: formula, columns and declarations (public)."""
        return self._view.design

    @property
    def mechanism(self) -> str:
        """What was released, and with which noise."""
        return self.release.mechanism

    @property
    def privacy(self) -> PrivacyCost:
        """What was spent, shared by all fits from one release."""
        return self.release.privacy

    @property
    def declared(self) -> str:
        """Where bounds and levels came from."""
        return self.release.declared

    @property
    def cov_type(self) -> str:
        """Type of the sampling covariance: "nonrobust", "HC0", "HC1", or "gradient" (a released score covariance)."""
        return self._robust.cov_type if self._robust else "nonrobust"

    @property
    def has_model_correlations(self) -> bool:
        """Whether robust standard errors go with the correlations of the model: variances alone were measured."""
        if self._robust is None or self._robust.sampling is None or not self.cov_type.startswith("HC"):
            return False
        return self._robust.sampling.covariance is None and self._space.n_params > 1

    @cached_property
    def _moments(self) -> NoisyMoments:
        return self.release.usable_moments()

    @cached_property
    def _space(self) -> ModelSpace:
        return self.release.space(self._view)

    @cached_property
    def _solution(self) -> Solution:
        return self.release.solve(self._moments, self._space)

    @cached_property
    def _fit(self) -> LeastSquares:
        fit = self.release.infer(self._moments, self._space, self._solution)
        if self._robust is None or self._robust.sampling is None:
            return fit
        return with_robust_sampling(fit, self._space, self._robust.sampling)

    @cached_property
    def _coefficients(self) -> list[Contrast]:
        return contrasts(self._moments, self._space, self._fit, np.eye(self._space.n_params))

    @cached_property
    def _fit_quality(self) -> RSquared:
        return r_squared(self._moments, self._space, self._fit)

    @property
    def _terms(self) -> pd.Index:
        """Names of the coefficients; a view, whose own name a user may change."""
        return _index(tuple(self.model.exog_names)).view()

    def _series(self, values: Sequence[float] | NDArray[np.float64]) -> pd.Series:
        return pd.Series(np.asarray(values, dtype=np.float64), index=self._terms)

    @property
    def params(self) -> pd.Series:
        """Estimated coefficients, corrected for the bias that noise in X'X causes to second order; shape (q,)."""
        shown = shown_values(self._space, self._solution, np.eye(self._space.n_params))
        return self._series(self._space.half * shown)

    @property
    def bse(self) -> pd.Series:
        """Standard errors, sampling and privacy noise together; shape (q,)."""
        return self._series([self._space.half * c.sd for c in self._coefficients])

    @property
    def bse_sampling(self) -> pd.Series:
        """The part of `bse` that a non-private fit would have too; bse^2 = bse_sampling^2 + bse_privacy^2."""
        return self._series([self._space.half * c.sampling_sd for c in self._coefficients])

    @property
    def bse_privacy(self) -> pd.Series:
        """The part of `bse` that is privacy noise."""
        return self._series([self._space.half * c.privacy_sd for c in self._coefficients])

    @property
    def tvalues(self) -> pd.Series:
        """Params / bse, nan where the noise leaves a coefficient unidentified; `pvalues` are not read off these."""
        bounded = np.isfinite(self.conf_int()).all(axis=1)
        return (self.params / self.bse).where(bounded)

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of coefficients equal to 0, dual to `conf_int` at every level."""
        return self._series([c.p_value(0.0) for c in self._coefficients])

    def conf_int(self, alpha: float = 0.05, cols: Sequence[int | str] | None = None) -> pd.DataFrame:
        """Return confidence intervals that account for sampling and privacy noise.

        Parameters
        ----------
        alpha : float
            1 - alpha is the nominal coverage.
        cols : sequence of int or str, optional
            Positions or names of the coefficients wanted; all by default.

        Returns
        -------
        pandas.DataFrame
            Columns 0 and 1; (-inf, inf) where the privacy noise leaves a coefficient unidentified.

        Raises
        ------
        OptionError
            If alpha is not between 0 and 1, or there is no such coefficient.

        Notes
        -----
        The intervals invert a test that accounts for the noise in X'X (Fieller 1954), with the exact law of the noise.
        They are asymmetric and may be unbounded.
        """
        level = check_alpha(alpha)
        ends = self._space.half * np.array([c.interval(level) for c in self._coefficients])
        table = pd.DataFrame(ends, index=self._terms)
        if cols is None:
            return table
        names = self.model.exog_names
        for column in cols:
            if column not in names and not (isinstance(column, int) and -len(names) <= column < len(names)):
                raise OptionError(f"cols must hold positions or names among {', '.join(names)}, not {shown(column)}")
        return table.loc[[column if column in names else names[int(column)] for column in cols]]

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance matrix of the coefficients, sampling and privacy noise together; shape (q, q)."""
        back = np.linalg.inv(self._space.r)
        matrix = self._space.half**2 * back @ self._fit.covariance @ back.T
        matrix = np.full_like(matrix, np.nan) if self._fit.trimmed else matrix
        return pd.DataFrame(matrix, index=self._terms, columns=self._terms)

    # -- sizes and fit -----------------------------------------------------------------------------------------------

    @property
    def nobs(self) -> float:
        """Number of complete rows, with noise; `nobs_sd` is the noise's standard deviation."""
        return self._moments.n_complete

    @property
    def nobs_sd(self) -> float:
        """Standard deviation of the noise in `nobs`."""
        form = np.zeros(len(self._moments.values))
        form[self._moments.count] = 1.0
        return math.sqrt(self._moments.variance_of(form))

    @property
    def rows_seen(self) -> RowsSeen | None:
        """How many complete rows the noisy sums show, and the noise in that; None if they do not."""
        return RowsSeen(self.nobs, self.nobs_sd)

    @property
    def k_constant(self) -> int:
        """1 if the model's columns span the constant, 0 if not."""
        return int(self._space.has_constant)

    @property
    def df_model(self) -> float:
        """Number of coefficients, the constant not counted."""
        return float(self._solution.n_identified - self.k_constant)

    @property
    def df_resid(self) -> float:
        """Noisy number of complete rows less the number of coefficients, at least 1."""
        return self._fit.df_resid

    @property
    def scale(self) -> float:
        """Residual variance in squared units of the response, of a row of weight 1, from released moments."""
        weights = self.design.rules.weights
        return self._space.half**2 * self._fit.sigma2 * (1.0 if weights is None else weights.bounds.upper)

    @property
    def mse_resid(self) -> float:
        """Alias of `scale`."""
        return self.scale

    @property
    def is_singular(self) -> bool:
        """True if the matrix that was inverted is singular for all practical purposes."""
        return self._fit.singular

    @property
    def scale_clamped(self) -> bool:
        """True if the noise does not resolve the residual variance, so that `scale` is a bound instead."""
        return self._fit.sigma2_clamped

    @property
    def rsquared(self) -> float:
        """Noisy R-squared in [0, 1]; nan where the noise hides it."""
        return self._fit_quality.value

    @property
    def rsquared_adj(self) -> float:
        """Noisy adjusted R-squared in [0, 1]; nan where the noise hides it."""
        return self._fit_quality.adjusted

    # -- how much signal the noise leaves ----------------------------------------------------------------------------

    @property
    def kappa(self) -> float:
        """Noise-to-signal number of the fit: good up to .2, usable up to .5, weak above."""
        return kappa(self._moments, self._space)

    @property
    def snr(self) -> pd.Series:
        """Signal-to-noise ratio per coefficient; an interval is bounded where this exceeds the critical value."""
        return self._series([c.signal_to_noise for c in self._coefficients])

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what was released, not what is computed from it."""
        computed = {name for name in vars(self) if isinstance(getattr(type(self), name, None), cached_property)}
        return {name: value for name, value in vars(self).items() if name not in computed}
