"""The result of a private fit, with the protocol of a statsmodels result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import NotReleasedError
from dpstats.inference.diagnostics import kappa
from dpstats.inference.estimates import LeastSquares, ModelSpace, RSquared, fit_least_squares, model_space, r_squared
from dpstats.inference.moment_test import Contrast, contrasts
from dpstats.inference.moments import NoisyMoments
from dpstats.inference.robust import with_robust_sampling
from dpstats.privacy.cost import PrivacyCost
from dpstats.results.constraints import read_constraints
from dpstats.results.contrast_test import ContrastTest, check_alpha
from dpstats.results.joint_test import JointTest, TermTests, joint_test, term_tests
from dpstats.results.model_info import ModelInfo
from dpstats.results.prediction import predict_rows
from dpstats.results.release import MomentRelease
from dpstats.specification.view import ModelView

_PER_RECORD = "it holds one number per record; use predict(new_data) on public rows instead"
_LIKELIHOOD = "the likelihood was not released; compare models by rsquared_adj or by t_test"
_EXACT = "it is an exact property of the confidential data; see nobs, scale and bse for what was released"
NOT_RELEASED = {
    "resid": _PER_RECORD,
    "fittedvalues": _PER_RECORD,
    "wresid": _PER_RECORD,
    "resid_pearson": _PER_RECORD,
    "get_influence": _PER_RECORD,
    "outlier_test": _PER_RECORD,
    "llf": _LIKELIHOOD,
    "aic": _LIKELIHOOD,
    "bic": _LIKELIHOOD,
    "info_criteria": _LIKELIHOOD,
    "condition_number": _EXACT,
    "eigenvals": _EXACT,
    "normalized_cov_params": _EXACT,
    "ssr": _EXACT,
    "ess": _EXACT,
    "centered_tss": _EXACT,
    "uncentered_tss": _EXACT,
}


@dataclass(frozen=True, slots=True)
class RobustScale:
    """Outcome of the second release of a fit with robust standard errors (zone: released).

    Attributes
    ----------
    cov_type : str
        "HC0" or "HC1".
    ratios : ndarray
        Robust over model-based sampling variance per coefficient, shape (q,).
    """

    cov_type: str
    ratios: NDArray[np.float64]


class DPResults:
    """A fitted private linear model.

    Everything here is computed from one released vector of noisy moments, from public facts and from the known law of
    the noise. It holds no reference to the data and can be pickled.

    Attributes
    ----------
    model : ModelInfo
        ``endog_names``, ``exog_names`` and ``formula``.
    mechanism : str
        What was released, and with which noise.
    privacy : PrivacyCost
        What was spent, on what, under which neighbouring relation.
    declared : str
        Where bounds and levels came from.
    release : MomentRelease
        The released sums; `refit` fits other formulas from them at no cost.

    Notes
    -----
    The estimand is the least-squares projection of the response, clipped to its bounds, on the model columns formed
    from clipped columns, over complete rows.
    """

    use_t = False

    def __init__(self, release: MomentRelease, view: ModelView, robust: RobustScale | None = None) -> None:
        self.release = release
        self.model = ModelInfo(view.design.formula, view.design.endog_name, view.design.exog_names)
        self._view = view
        self._robust = robust

    # -- what was fitted ---------------------------------------------------------------------------------------------

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
        """Type of the sampling covariance: "nonrobust", "HC0" or "HC1"."""
        return self._robust.cov_type if self._robust else "nonrobust"

    @cached_property
    def _moments(self) -> NoisyMoments:
        return self.release.usable_moments()

    @cached_property
    def _space(self) -> ModelSpace:
        return model_space(self._view.contrast, self._view.has_constant, self.release.coding)

    @cached_property
    def _fit(self) -> LeastSquares:
        fit = fit_least_squares(self._moments, self._space)
        return with_robust_sampling(fit, self._space, self._robust.ratios) if self._robust else fit

    @cached_property
    def _coefficients(self) -> list[Contrast]:
        return contrasts(self._moments, self._space, self._fit, np.eye(self._space.n_params))

    @cached_property
    def _fit_quality(self) -> RSquared:
        return r_squared(self._moments, self._space, self._fit)

    def _series(self, values: Sequence[float] | NDArray[np.float64]) -> pd.Series:
        return pd.Series(np.asarray(values, dtype=np.float64), index=self.model.exog_names)

    @property
    def params(self) -> pd.Series:
        """Estimated coefficients, corrected for the bias that noise in X'X causes to second order; shape (q,)."""
        return self._series([self._space.half * c.shown for c in self._coefficients])

    @property
    def bse(self) -> pd.Series:
        """Standard errors, sampling and privacy noise together; shape (q,)."""
        return self._series([self._space.half * math.sqrt(c.q0) for c in self._coefficients])

    @property
    def bse_sampling(self) -> pd.Series:
        """The part of `bse` that a non-private fit would have too; bse^2 = bse_sampling^2 + bse_privacy^2."""
        return self._series([self._space.half * math.sqrt(c.sampling) for c in self._coefficients])

    @property
    def bse_privacy(self) -> pd.Series:
        """The part of `bse` that is privacy noise."""
        return self._series([self._space.half * math.sqrt(max(c.q0 - c.sampling, 0.0)) for c in self._coefficients])

    @property
    def tvalues(self) -> pd.Series:
        """Params / bse; the p-values come from `pvalues`, not from these."""
        return self.params / self.bse

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of coefficients equal to 0, dual to `conf_int` at every level."""
        return self._series([c.p_value(0.0) for c in self._coefficients])

    def conf_int(self, alpha: float = 0.05, cols: Sequence[int] | None = None) -> pd.DataFrame:
        """Return confidence intervals that account for sampling and privacy noise.

        Parameters
        ----------
        alpha : float
            1 - alpha is the nominal coverage.
        cols : sequence of int, optional
            Positions of the coefficients wanted; all by default.

        Returns
        -------
        pandas.DataFrame
            Columns 0 and 1; (-inf, inf) where the privacy noise leaves a coefficient unidentified.

        Raises
        ------
        OptionError
            If alpha is not between 0 and 1.

        Notes
        -----
        The intervals invert a test that accounts for the noise in X'X (Fieller 1954), with the exact law of the noise.
        They are asymmetric and may be unbounded.
        """
        level = check_alpha(alpha)
        ends = self._space.half * np.array([c.interval(level) for c in self._coefficients])
        table = pd.DataFrame(ends, index=self.model.exog_names)
        return table if cols is None else table.iloc[list(cols)]

    def cov_params(self) -> pd.DataFrame:
        """Return the covariance matrix of the coefficients, sampling and privacy noise together; shape (q, q)."""
        back = np.linalg.inv(self._space.r)
        matrix = self._space.half**2 * back @ self._fit.covariance @ back.T
        return pd.DataFrame(matrix, index=self.model.exog_names, columns=self.model.exog_names)

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
    def df_model(self) -> float:
        """Number of coefficients, the constant not counted."""
        return float(self._space.n_params - self._space.has_constant)

    @property
    def df_resid(self) -> float:
        """Noisy number of complete rows less the number of coefficients, at least 1."""
        return self._fit.df_resid

    @property
    def scale(self) -> float:
        """Residual variance in squared units of the response, from released moments."""
        return self._space.half**2 * self._fit.sigma2

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

    # -- tests, prediction, printing ---------------------------------------------------------------------------------

    def t_test(self, r_matrix: Any) -> ContrastTest:
        """Test linear contrasts of the coefficients one by one.

        Parameters
        ----------
        r_matrix : str, list of str, array of shape (m, q), or tuple (array, values)
            Constraints as in statsmodels: ``"x1 = x2"``, ``"C(g)[T.b] = 0.5"``.

        Returns
        -------
        ContrastTest
            ``effect``, ``sd``, ``tvalue``, ``pvalue``, ``conf_int(alpha)``, ``summary_frame()``.

        Raises
        ------
        OptionError
            If the constraints cannot be read.
        """
        read = read_constraints(r_matrix, self.model.exog_names)
        found = contrasts(self._moments, self._space, self._fit, read.matrix)
        return ContrastTest(tuple(found), read.tested, self._space.half, self.privacy.is_private)

    def wald_test(self, r_matrix: Any) -> JointTest:
        """Test linear hypotheses jointly.

        Parameters
        ----------
        r_matrix : str, list of str, array of shape (m, q), or tuple (array, values)
            Constraints as in statsmodels.

        Returns
        -------
        JointTest
            ``statistic`` (chi-squared), ``pvalue``, ``df_denom``.

        Raises
        ------
        OptionError
            If the constraints cannot be read, or are linearly dependent.

        Notes
        -----
        A score test under the known law of the noise; under Laplace noise the p-value comes from 10,000 draws of it.
        """
        return joint_test(self._moments, self._space, self._fit, read_constraints(r_matrix, self.model.exog_names))

    def f_test(self, r_matrix: Any) -> JointTest:
        """Test linear hypotheses jointly; the same test as `wald_test`, with ``fvalue`` = chi-squared / m."""
        return self.wald_test(r_matrix)

    def wald_test_terms(self) -> TermTests:
        """Test each term of the formula jointly, all coefficients of a term equal to 0."""
        terms = [column.term for column in self._view.design.columns]
        return term_tests(self._moments, self._space, self._fit, terms)

    def slopes_test(self) -> JointTest | None:
        """Test all coefficients but the constant equal to 0; None if there is no other coefficient."""
        rows = np.array([c.term != "1" for c in self._view.design.columns])
        if not rows.any():
            return None
        return self.wald_test(np.eye(self._space.n_params)[rows])

    def refit(self, formula: str) -> DPResults:
        """Fit another formula from the same release, at no further cost.

        Parameters
        ----------
        formula : str
            Same response; regressors in the span of the released columns. Standard errors are nonrobust: robust ones
            would need a release of their own.

        Raises
        ------
        FormulaError, SchemaError, DesignError
            If the formula is not well formed or not in the span.
        """
        return self.release.fit(formula)

    def predict(self, exog: Any = None) -> pd.Series:
        """Predict the response for new rows.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns; the response is not needed.

        Returns
        -------
        pandas.Series
            In the response's unit (of the transformed response, if it is transformed). Values outside their bounds are
            clipped, as in the fit; rows with a missing entry or an undeclared level give nan.

        Raises
        ------
        NotReleasedError
            Without `exog`: predictions for the confidential rows are not released.
        DataError
            If a column is missing.
        """
        if exog is None:
            raise NotReleasedError(
                "predictions for the confidential rows were not released; pass new rows, predict(new_data)"
            )
        return predict_rows(self._view.design, self.params.to_numpy(), exog)

    def summary(self, alpha: float = 0.05) -> Any:
        """Return a printable table: text, LaTeX, HTML or CSV, as in statsmodels.

        Parameters
        ----------
        alpha : float
            1 - alpha is the level of the intervals shown.
        """
        from dpstats.results.summary import summarize

        return summarize(self, check_alpha(alpha))

    def __repr__(self) -> str:
        state = "" if self.privacy.is_private else ", NOT PRIVATE"
        return f"<DPResults: {self.model.formula!r}, {self.privacy.budget}{state}>"

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what was released, not what is computed from it."""
        computed = {name for name, value in vars(type(self)).items() if isinstance(value, cached_property)}
        return {name: value for name, value in vars(self).items() if name not in computed}

    def __getattr__(self, name: str) -> Any:
        if name in NOT_RELEASED:
            raise NotReleasedError(f"{name} was not released: {NOT_RELEASED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
