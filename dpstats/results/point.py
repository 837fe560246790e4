"""Results of a mechanism that has point estimates only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from dpstats.errors import NotReleasedError
from dpstats.privacy.cost import PrivacyCost
from dpstats.results.contrast_test import check_alpha
from dpstats.results.model_info import ModelInfo
from dpstats.results.not_released import NOT_RELEASED
from dpstats.results.prediction import NEW_ROWS, predict_rows
from dpstats.results.tidy import glance_point, tidy_point
from dpstats.specification.design import Design

_INFERENCE = frozenset(
    {"bse", "bse_sampling", "bse_privacy", "tvalues", "pvalues", "conf_int", "cov_params", "cov_type"}
    | {"t_test", "wald_test", "f_test", "wald_test_terms", "slopes_test", "kappa", "snr"}
    | {"t_test_pairwise", "anova", "get_prediction"}
)
_COUNTS = frozenset({"nobs", "nobs_sd", "df_resid", "df_model", "scale", "rsquared", "rsquared_adj"})


@dataclass(frozen=True, repr=False)
class PointResults:
    """Private coefficients without standard errors (zone: released).

    Attributes
    ----------
    design : Design
        The model.
    params : pandas.Series
        Coefficients in raw units, shape (q,).
    mechanism : str
        What was released, and with which noise.
    privacy : PrivacyCost
        What was spent.
    estimand : str
        What the coefficients estimate.
    no_inference : str
        Why there are no intervals, and what to use instead.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, rho=0.5, schema=schema, mechanism="adassp")
    >>> fit.predict({"age": [40], "sex": ["Male"]}).shape
    (1,)
    """

    design: Design
    params: pd.Series
    mechanism: str
    privacy: PrivacyCost
    estimand: str
    no_inference: str
    declared: str = "declared"
    model_name = "DP OLS"
    shares_release = False

    @property
    def model(self) -> ModelInfo:
        """Names and formula."""
        return ModelInfo(self.design.formula, self.design.endog_name, self.design.exog_names)

    def predict(self, exog: Any = None) -> pd.Series:
        """Predict the response for new rows.

        Parameters
        ----------
        exog : pandas.DataFrame or dict of array-like
            Rows with the regressors' raw columns.

        Raises
        ------
        NotReleasedError
            Without `exog`.
        DataError
            If a column is missing.
        """
        if exog is None:
            raise NotReleasedError(NEW_ROWS)
        return predict_rows(self.design, self.params.to_numpy(), exog)

    def summary(self) -> Any:
        """Return a printable table of the coefficients: text, LaTeX, HTML or CSV."""
        from dpstats.results.summary import summarize_point

        return summarize_point(self)

    def tidy(self, alpha: float = 0.05) -> pd.DataFrame:
        """Return the coefficients with broom's column names, as other results do; all but term and estimate are nan.

        Parameters
        ----------
        alpha : float
            Without effect: there are no intervals.

        Raises
        ------
        OptionError
            If alpha is not between 0 and 1.
        """
        check_alpha(alpha)
        return tidy_point(self)

    def glance(self) -> pd.DataFrame:
        """Return one row about the fit: ``epsilon, delta, rho, private, mechanism``; nothing else was released."""
        return glance_point(self)

    def __repr__(self) -> str:
        state = "" if self.privacy.is_private else ", NOT PRIVATE"
        return f"<PointResults: {self.model.formula!r}, {self.mechanism}, {self.privacy.budget}{state}>"

    def __getattr__(self, name: str) -> Any:
        if name in _INFERENCE:
            raise NotReleasedError(f"{name} is not offered: {self.no_inference}")
        if name in _COUNTS:
            raise NotReleasedError(f"{name} was not released by this mechanism; mechanism='ssp' releases it")
        if name in NOT_RELEASED:
            raise NotReleasedError(f"{name} was not released: {NOT_RELEASED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
