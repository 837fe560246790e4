"""What a statsmodels result holds and a private one must not, with the reason."""

from __future__ import annotations

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
