"""What a regression table shows of one fit, ours or statsmodels'."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpstats.errors import OptionError, shown
from dpstats.results.point import PointResults
from dpstats.results.results import DPResults

FACTS = ("Observations", "R-squared", "epsilon", "delta", "rho", "Mechanism", "Covariance type")
"""Rows below the coefficients, in this order."""
NOISY = "(dp)"
PUBLIC_LENGTH = "(rows)"
_NOT_PRIVATE = {"real": "", "simulated": "simulated noise", "none": "no noise"}


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One fit as a column (zone: released; of a statsmodels fit, what it shows anyway).

    Attributes
    ----------
    fit : object
        The fit.
    response, model : str
        What stands in the head.
    coefficients : pandas.DataFrame
        Indexed by the label that is printed, columns as of ``tidy``.
    facts : dict of str to str
        Rows of `FACTS`, those that apply.
    not_private : str
        Why the column is not private; empty if it is.
    """

    fit: Any
    response: str
    model: str
    coefficients: pd.DataFrame
    facts: dict[str, str]
    not_private: str

    @property
    def is_ours(self) -> bool:
        """False for a fit of statsmodels."""
        return isinstance(self.fit, DPResults | PointResults)

    @property
    def has_errors(self) -> bool:
        """False for a mechanism that has estimates only."""
        return not isinstance(self.fit, PointResults)

    @property
    def has_privacy_noise(self) -> bool:
        """True if the standard errors contain privacy noise."""
        return self.is_ours and self.has_errors and self.fit.privacy.noise != "none"


def column_of(fit: Any, name: str, alpha: float, labels: Mapping[str, str]) -> TableColumn:
    """Return a fit as a column.

    Parameters
    ----------
    fit : DPResults, PointResults, or result of statsmodels
        The fit.
    name : str
        How messages name it, as in ``fits[0]``.
    alpha : float
        Level of the intervals is 1 - alpha.
    labels : mapping of str to str
        What to call a coefficient.

    Raises
    ------
    OptionError
        If it is no such result, has several equations, or two coefficients would have one name.
    """
    if isinstance(fit, DPResults | PointResults):
        coefficients, model = fit.tidy(alpha), fit.model_name
        not_private = _NOT_PRIVATE[fit.privacy.noise]
    else:
        coefficients, model = _tidy_statsmodels(fit, name, alpha), type(fit.model).__name__
        not_private = "no noise (statsmodels)"
    coefficients.index = pd.Index([labels.get(term, term) for term in coefficients["term"]])
    twice = coefficients.index.duplicated()
    if twice.any():
        called = coefficients.index[twice][0]
        raise OptionError(f"{name} has two coefficients called {called!r}; give each a name of its own in labels")
    return TableColumn(fit, str(fit.model.endog_names), model, coefficients, _facts_of(fit), not_private)


def _facts_of(fit: Any) -> dict[str, str]:
    """Return what a table says below the coefficients of a fit: those of `FACTS` that apply."""
    found = _facts_of_ours(fit) if isinstance(fit, DPResults | PointResults) else _facts_of_statsmodels(fit)
    return {name: found[name] for name in FACTS if found.get(name)}


def _tidy_statsmodels(fit: Any, name: str, alpha: float) -> pd.DataFrame:
    missing = [part for part in ("params", "bse", "pvalues", "conf_int", "model") if not hasattr(fit, part)]
    if missing:
        raise OptionError(
            f"{name} must be a result of dpstats or statsmodels, as from dps.dp_ols(...) or smf.ols(...).fit(); not "
            f"{shown(fit)}"
        )
    if np.ndim(fit.params) != 1:
        raise OptionError(f"{name} has several equations; a table takes results of one equation")
    terms = list(fit.params.index) if isinstance(fit.params, pd.Series) else list(fit.model.exog_names)
    ends = np.asarray(fit.conf_int(alpha=alpha))
    return pd.DataFrame(
        {
            "term": [str(term) for term in terms],
            "estimate": np.asarray(fit.params),
            "std_error": np.asarray(fit.bse),
            "p_value": np.asarray(fit.pvalues),
            "conf_low": ends[:, 0],
            "conf_high": ends[:, 1],
        }
    )


def _facts_of_ours(fit: DPResults | PointResults) -> dict[str, str]:
    budget = fit.privacy.budget.whole
    numbers = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    guarantee = {name: "" if value is None else f"{value:g}" for name, value in numbers.items()}
    facts = {**(guarantee if fit.privacy.is_private else {"epsilon": "inf"}), "Mechanism": fit.mechanism}
    if isinstance(fit, PointResults):
        return facts
    facts |= {"Observations": observations(fit), "Covariance type": fit.cov_type}
    return facts if fit.is_binary or fit.is_perturbed else {**facts, "R-squared": _r_squared(fit)}


def observations(fit: DPResults) -> str:
    """Return the number of rows, and how it is known."""
    noise = f" {PUBLIC_LENGTH}" if fit.is_perturbed else f" {NOISY}" if fit.nobs_sd else ""
    return f"{fit.nobs:,.0f}{noise}"


def guarantee(fit: DPResults) -> str:
    """Return the budget, or why the fit is not private."""
    reason = _NOT_PRIVATE[fit.privacy.noise]
    return f"NOT PRIVATE: {reason}" if reason else str(fit.privacy.budget)


def _r_squared(fit: DPResults) -> str:
    noise = f" {NOISY}" if fit.nobs_sd else ""
    return "hidden by noise" if math.isnan(fit.rsquared) else f"{fit.rsquared:.3f}{noise}"


def _facts_of_statsmodels(fit: Any) -> dict[str, str]:
    facts = {"epsilon": "inf", "Mechanism": "none", "Covariance type": str(getattr(fit, "cov_type", ""))}
    if hasattr(fit, "nobs"):
        facts["Observations"] = f"{fit.nobs:,.0f}"
    if hasattr(fit, "rsquared"):
        facts["R-squared"] = f"{fit.rsquared:.3f}"
    return facts
