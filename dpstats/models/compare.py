"""`compare`: a private fit beside statsmodels' fit of the same formula on the same rows, where the data are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import OptionError, ReleaseError
from dpstats.models.call import Sealed, Unit, table_of
from dpstats.models.comparison import Comparison, Estimates, agreement
from dpstats.records.model_table import ModelTable, model_table
from dpstats.records.source import silence
from dpstats.release.release import read_closed
from dpstats.results.classifier import DPSVMResults
from dpstats.results.contrast_test import check_alpha
from dpstats.results.huber import DPHuberResults
from dpstats.results.point import PointResults
from dpstats.results.release import MomentRelease
from dpstats.results.results import DPResults
from dpstats.specification.design import build_design

MOST_STEPS = 100


def compare(fit: DPResults, data: Any, alpha: float = 0.05) -> Comparison:
    """Put a private fit beside the non-private fit of the same formula on the same rows. NOT PRIVATE.

    For the analyst inside the enclave. The non-private fit is statsmodels' ``OLS`` or ``Logit``, or ``RLM`` with the
    threshold of a Huber regression, on the rows that the private fit is about: complete after undeclared levels and
    unreadable entries count as missing, clipped to the bounds. Without noise, at ``epsilon=float("inf")``, the two
    agree. Choosing by it what to publish spends privacy.

    Parameters
    ----------
    fit : DPResults
        From `dp_ols` or `dp_logit`.
    data : table
        The table that was fitted.
    alpha : float
        Intervals are of level 1 - alpha, with normal quantiles in both fits; significance is compared at alpha.

    Returns
    -------
    Comparison
        Prints as a table, as text and in notebooks; ``to_frame()``, ``summary()``, ``to_latex()``, ``plot()``. It
        refuses to be pickled or copied.

    Raises
    ------
    OptionError
        If `fit` is no such fit, or one without standard errors (AdaSSP) or without a counterpart in statsmodels
        (`dp_svm`).
    DataError, SchemaError, FormulaError
        If names or types of the table do not fit the formula.
    ReleaseError
        If the table cannot be read.

    Notes
    -----
    Coefficients that the rows do not identify, such as that of a level that never occurs, and all coefficients of a
    logit that separates, are nan in the non-private fit. A fit whose private standard errors use the covariance of the
    gradient is put beside HC0, a Huber regression beside RLM's ``H2``. Nothing is charged to a ledger: the outcome is
    not a release.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> "NOT PRIVATE" in str(dps.compare(fit, adult))
    True
    """
    sealed = Sealed(data)
    del data  # a traceback that shows local variables shows no record
    _require_comparable(fit)
    level = check_alpha(alpha)
    protection = fit.privacy.protection
    unit = Unit(protection.contributions, protection.neighboring_relation, protection.privacy_unit or None)
    source = table_of(sealed, unit).source
    design = fit.design
    released = fit.release.coding.design if isinstance(fit.release, MomentRelease) else design
    binary = "dp_logit" if fit.is_binary else ""
    build_design(released.formula, released.schema, source.facts, binary=binary, rules=released.rules)
    counterpart = _counterpart(fit)
    try:
        plain = read_closed(lambda: _fit_plainly(model_table(source, design, released), counterpart, level))
    except ReleaseError:
        raise ReleaseError("the table could not be read, so there is nothing to compare; nothing was spent") from None
    params, bse, pvalues = (series.to_numpy() for series in (fit.params, fit.bse, fit.pvalues))
    private = Estimates(params, bse, fit.conf_int(level).to_numpy(), pvalues)
    state = {"real": "", "simulated": ", simulated noise", "none": ", no noise"}[fit.privacy.noise]
    return Comparison(
        design.formula,
        f"{fit.model_name} ({fit.cov_type}) by {fit.mechanism}, {fit.privacy.budget}{state}",
        f"statsmodels' {counterpart.name} ({counterpart.cov_type}) on {plain.n_rows:,} complete rows",
        fit.estimand,
        level,
        fit.privacy.is_private,
        agreement(fit.model.exog_names, private, plain.estimates, fit.bse_privacy.to_numpy(), level),
    )


@dataclass(frozen=True, slots=True)
class _Counterpart:
    """Which model of statsmodels stands beside a fit (zone: public); the threshold is of ``RLM``."""

    name: Literal["OLS", "WLS", "Logit", "RLM"]
    cov_type: str
    threshold: float = math.inf


def _counterpart(fit: DPResults) -> _Counterpart:
    if isinstance(fit, DPHuberResults):
        return _Counterpart("RLM", "H2", fit.threshold)
    cov_type = "HC0" if fit.cov_type == "gradient" else fit.cov_type
    return _Counterpart("Logit" if fit.is_binary else "OLS" if fit.design.rules.weights is None else "WLS", cov_type)


def _require_comparable(fit: Any) -> None:
    if isinstance(fit, MomentRelease):
        raise OptionError("fit must be a fit and not a release; write dps.compare(release.fit(), data)")
    if isinstance(fit, PointResults):
        raise OptionError(f"fit has no standard errors to compare. {fit.no_inference}")
    if isinstance(fit, DPSVMResults):
        raise OptionError("statsmodels has no support vector machine to put beside dp_svm; fit dp_logit to compare")
    if not isinstance(fit, DPResults):
        raise OptionError(f"fit must be a result of dp_ols or dp_logit, not {type(fit).__name__}")


@dataclass(frozen=True, slots=True, repr=False)
class PlainFit:
    """A fit without privacy (zone: PRIVATE)."""

    n_rows: int
    estimates: Estimates

    def __repr__(self) -> str:
        return "PlainFit()"


def _fit_plainly(table: ModelTable, counterpart: _Counterpart, alpha: float) -> PlainFit:
    """Fit with statsmodels on a basis of the columns' span, so that redundant columns leave the others alone."""
    n, q = table.exog.shape
    basis, identified = _identified(table.exog)
    params, bse, pvalues, ends = np.full(q, np.nan), np.full(q, np.nan), np.full(q, np.nan), np.full((q, 2), np.nan)
    with silence():
        fit = _statsmodels_fit(table, basis, counterpart) if basis.size else None
        if fit is not None and identified.any():
            found = fit.t_test(basis[identified])
            params[identified], bse[identified] = np.ravel(found.effect), np.ravel(found.sd)
            pvalues[identified], ends[identified] = np.ravel(found.pvalue), found.conf_int(alpha)
    return PlainFit(n, Estimates(params, bse, ends, pvalues))


def _identified(exog: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return a basis B, shape (q, r), with B'X'XB = n I, and which coefficients the rows identify."""
    n, q = exog.shape
    if not n:
        return np.zeros((q, 0)), np.zeros(q, dtype=bool)
    sizes = np.linalg.norm(exog, axis=0)
    sizes[sizes == 0] = 1.0
    _, singular, right = np.linalg.svd(np.linalg.qr(exog / sizes, mode="r"), full_matrices=True)
    rank = int((singular > singular[0] * max(n, q) * np.finfo(np.float64).eps).sum())
    null_part = np.linalg.norm(right[rank:], axis=0)
    basis = right[:rank].T / singular[:rank] / sizes[:, None]
    return np.sqrt(n) * basis, null_part < 1e-6


def _statsmodels_fit(table: ModelTable, basis: NDArray[np.float64], counterpart: _Counterpart) -> Any:
    """Return statsmodels' result, or None if there is none: too few rows, or classes that separate."""
    from statsmodels.discrete.discrete_model import Logit
    from statsmodels.regression.linear_model import WLS
    from statsmodels.robust.norms import HuberT
    from statsmodels.robust.robust_linear_model import RLM
    from statsmodels.tools.sm_exceptions import PerfectSeparationError

    endog, exog = table.endog, table.exog @ basis
    if len(endog) <= exog.shape[1]:
        return None
    if counterpart.name == "RLM":
        model = RLM(endog, exog, M=HuberT(t=counterpart.threshold))
        return model.fit(maxiter=MOST_STEPS, start_scale=1.0, update_scale=False, cov=counterpart.cov_type)
    if counterpart.name != "Logit":
        return WLS(endog, exog, weights=table.weights).fit(cov_type=counterpart.cov_type, use_t=False)
    try:
        fit = Logit(endog, exog).fit(disp=0, maxiter=MOST_STEPS, cov_type=counterpart.cov_type)
    except (np.linalg.LinAlgError, PerfectSeparationError):
        return None
    return fit if fit.mle_retvals["converged"] else None
