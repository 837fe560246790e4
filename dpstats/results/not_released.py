"""What a statsmodels result holds and a private one must not, with the reason."""

from __future__ import annotations

_PER_RECORD = "it holds one number per record; use predict(new_data) on public rows instead"
_LIKELIHOOD = "the likelihood was not released; compare models by rsquared_adj or by t_test"
_EXACT = "it is an exact property of the confidential data; see nobs, scale and bse for what was released"
_ROBUST = "robust standard errors need a release of their own; write cov_type='HC1' in the call"
NOT_RELEASED = {
    **dict.fromkeys(("get_robustcov_results", "HC0_se", "HC1_se", "HC2_se", "HC3_se"), _ROBUST),
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
    **dict.fromkeys(("mse_model", "mse_total"), _EXACT),
    **dict.fromkeys(("cov_HC0", "cov_HC1", "cov_HC2", "cov_HC3"), _ROBUST),
    **dict.fromkeys(
        ("compare_f_test", "compare_lm_test"), "it compares sums of squares; test the terms that differ with wald_test"
    ),
    "compare_lr_test": "the likelihood was not released; test the terms that differ with wald_test",
}

_LIKELIHOOD_OF_CLASSES = "the likelihood was not released; compare models by wald_test or t_test"
NOT_RELEASED_BY_HUBER = {
    **dict.fromkeys(
        ("rsquared", "rsquared_adj"), "a Huber regression releases no total sum of squares; mechanism='ssp' does"
    ),
    **dict.fromkeys(("llf", "aic", "bic", "info_criteria"), _LIKELIHOOD_OF_CLASSES),
}
_MARGINAL = "it averages over the confidential rows; average get_prediction(new_data) over public rows instead"
NOT_RELEASED_BY_CLASSIFIERS = {
    **dict.fromkeys(("llf", "llnull", "llr", "llr_pvalue", "prsquared"), _LIKELIHOOD_OF_CLASSES),
    **dict.fromkeys(("aic", "bic", "info_criteria", "score_test"), _LIKELIHOOD_OF_CLASSES),
    **dict.fromkeys(("resid_dev", "resid_response", "resid_generalized", "resid_pearson"), _PER_RECORD),
    **dict.fromkeys(("pred_table", "converged", "mle_retvals", "mle_settings", "get_distribution"), _EXACT),
    "get_margeff": _MARGINAL,
}
