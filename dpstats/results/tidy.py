"""Results as data frames, with the column names of R's broom in snake case."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from dpstats.privacy.cost import PrivacyCost
    from dpstats.results.contrast_test import ContrastTest
    from dpstats.results.joint_test import JointTest
    from dpstats.results.point import PointResults
    from dpstats.results.results import DPResults

MEASURES = ("estimate", "std_error", "statistic", "p_value", "conf_low", "conf_high", "privacy_error")


def tidy(results: DPResults, alpha: float) -> pd.DataFrame:
    """Return one row per coefficient, columns ``term`` and `MEASURES`."""
    ends = results.conf_int(alpha)
    values = (results.params, results.bse, results.tvalues, results.pvalues, ends[0], ends[1], results.bse_privacy)
    measures = {name: series.to_numpy() for name, series in zip(MEASURES, values, strict=True)}
    return pd.DataFrame({"term": results.model.exog_names, **measures})


def tidy_point(results: PointResults) -> pd.DataFrame:
    """Return the columns of `tidy`, all but term and estimate nan."""
    measures = dict.fromkeys(MEASURES, math.nan) | {"estimate": results.params.to_numpy()}
    return pd.DataFrame({"term": results.model.exog_names, **measures})


def tidy_contrasts(test: ContrastTest, alpha: float) -> pd.DataFrame:
    """Return one row per contrast, columns ``contrast``, ``null_value`` and `MEASURES`."""
    ends = test.conf_int(alpha)
    privacy = np.array([test.scale * contrast.privacy_sd for contrast in test.contrasts])
    p_values = np.atleast_1d(test.pvalue)
    values = (test.effect, test.sd, test.tvalue, p_values, ends[:, 0], ends[:, 1], privacy)
    named = {"contrast": test.c_names, "null_value": np.asarray(test.values)}
    return pd.DataFrame({**named, **dict(zip(MEASURES, values, strict=True))})


def glance(results: DPResults) -> pd.DataFrame:
    """Return one row about the whole fit."""
    slopes = informative_slopes_test(results)
    quality = {} if results.is_binary else _quality(results)
    row = {
        **quality,
        "statistic": math.nan if slopes is None else slopes.fvalue,
        "p_value": math.nan if slopes is None else slopes.pvalue,
        "df": math.nan if slopes is None else float(slopes.df_num),
        "df_residual": results.df_resid,
        "nobs": results.nobs,
        "nobs_error": results.nobs_sd,
        **_cost(results.privacy),
        "mechanism": results.mechanism,
    }
    return pd.DataFrame([row])


def glance_point(results: PointResults) -> pd.DataFrame:
    """Return one row about a fit of which only coefficients were released."""
    return pd.DataFrame([{**_cost(results.privacy), "mechanism": results.mechanism}])


def informative_slopes_test(results: DPResults) -> JointTest | None:
    """Return the test of all slopes, or None where there is none or a singular matrix leaves it empty."""
    slopes = results.slopes_test()
    return None if slopes is not None and results.is_singular and slopes.pvalue == 1.0 else slopes


def _quality(results: DPResults) -> dict[str, float]:
    explained = {} if results.is_perturbed else {"r_squared": results.rsquared, "adj_r_squared": results.rsquared_adj}
    return {**explained, "sigma": math.sqrt(results.scale)}


def _cost(privacy: PrivacyCost) -> dict[str, Any]:
    """Return the guarantee in three numbers, nan for the notions that were not used; epsilon is inf without privacy."""
    budget = privacy.budget.whole
    asked = {"epsilon": budget.epsilon, "delta": budget.delta, "rho": budget.rho}
    numbers = asked if privacy.is_private else {"epsilon": math.inf, "delta": None, "rho": None}
    return {name: math.nan if value is None else value for name, value in numbers.items()} | {
        "private": privacy.is_private
    }
