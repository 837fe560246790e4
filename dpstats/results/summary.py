"""The printed regression table, made of statsmodels' own table parts."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpstats.errors import OptionError, shown
from dpstats.inference.diagnostics import word
from dpstats.results.escaping_summary import escaping_summary
from dpstats.results.model_info import ModelInfo
from dpstats.results.summary_notes import notes_of, warning_note
from dpstats.results.tidy import informative_slopes_test

if TYPE_CHECKING:
    from dpstats.results.joint_test import JointTest
    from dpstats.results.point import PointResults
    from dpstats.results.results import DPResults

SLIM = frozenset({"Dep. Variable:", "Model:", "No. Observations:", "No. Rows:"}) | {
    *("R-squared (noisy):", "R-squared (uncentered):"),
    *("Privacy:", "Neighbors:", "Privacy unit:", "Signal:"),
}
"""Rows of a slim head."""
_NOISE = {"real": "", "simulated": "NOT PRIVATE: simulated noise", "none": "NOT PRIVATE: no noise"}


@dataclass(frozen=True, slots=True)
class Naming:
    """What a summary calls things (zone: public).

    Attributes
    ----------
    yname : str
        The response.
    xname : list of str
        The coefficients.
    title : str or None
        Heading; None for the usual one.
    """

    yname: str
    xname: list[str]
    title: str | None = None

    @classmethod
    def of(cls, model: ModelInfo, yname: Any, xname: Any, title: Any) -> Naming:
        """Take the model's names where the user gives no others.

        Raises
        ------
        OptionError
            If a name is no text, or there are not as many as coefficients.
        """
        for argument, text in (("yname", yname), ("title", title)):
            if text is not None and not isinstance(text, str):
                raise OptionError(f"{argument} must be a text, not {shown(text)}")
        names = list(model.exog_names) if xname is None or isinstance(xname, str) else list(xname)
        if isinstance(xname, str) or len(names) != len(model.exog_names) or not all(isinstance(n, str) for n in names):
            raise OptionError(
                f"xname must be a list of {len(model.exog_names)} texts, one per coefficient, not {shown(xname)}"
            )
        return cls(model.endog_names if yname is None else yname, names, title)


def summarize(results: DPResults, alpha: float, naming: Naming, *, slim: bool = False) -> Any:
    """Return a statsmodels ``Summary`` of a fit.

    Parameters
    ----------
    results : DPResults
        The fit.
    alpha : float
        Level of the intervals is 1 - alpha.
    naming : Naming
        What to call things.
    slim : bool
        True for a short head and few notes.
    """
    warning = _NOISE[results.privacy.noise]
    left, right = _left(results, naming), _right(results, warning)
    if slim:
        left, right = ([row for row in side if row[0] in SLIM] for side in (left, right))
    return _assemble(
        results,
        warning,
        naming,
        left,
        right,
        _coefficient_table(results, alpha, naming),
        notes_of(results, alpha, warning, slim=slim),
    )


def summarize_point(results: PointResults) -> Any:
    """Return a statsmodels ``Summary`` of a fit without inference: coefficients, and why there is no more."""
    from statsmodels.iolib.summary import forg
    from statsmodels.iolib.table import SimpleTable
    from statsmodels.iolib.tableformatting import fmt_params

    warning = _NOISE[results.privacy.noise]
    left = [
        ("Dep. Variable:", results.model.endog_names),
        ("Model:", results.model_name),
        ("Mechanism:", results.mechanism),
        ("Bounds, levels:", results.declared),
    ]
    # As many columns as the head has: statsmodels' LaTeX merges the two tables.
    rows = [[forg(value, prec=4), "", ""] for value in results.params]
    style = {**fmt_params, "data_fmts": ["%s", "%s", "%s"]}
    table = SimpleTable(rows, ["coef", "", ""], list(results.model.exog_names), txt_fmt=style)
    notes = [results.no_inference, f"Estimand: {results.estimand}."]
    naming = Naming(results.model.endog_names, list(results.model.exog_names))
    right = _privacy_rows(results, warning)
    return _assemble(results, warning, naming, left, right, table, notes + warning_note(warning))


def _assemble(
    results: DPResults | PointResults,
    warning: str,
    naming: Naming,
    left: list[tuple[str, str]],
    right: list[tuple[str, str]],
    coefficients: Any,
    notes: list[str],
) -> Any:
    usual = f"{results.model_name} Regression Results" if naming.title is None else naming.title
    title = usual + (f" - {warning}" if warning else "")
    summary = escaping_summary()
    summary.add_table_2cols(
        results,
        title=title,
        gleft=[(name, [value]) for name, value in left],
        gright=[(name, [value]) for name, value in right],
        yname=naming.yname,
        xname=naming.xname,
    )
    summary.tables.append(coefficients)
    summary.add_extra_txt(["Notes:", *(f"[{i}] {_wrapped(note)}" for i, note in enumerate(notes, start=1))])
    return summary


def _wrapped(note: str) -> str:
    """Break a note into lines of the table's width."""
    return textwrap.fill(note, 106, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _left(results: DPResults, naming: Naming) -> list[tuple[str, str]]:
    noise = f" +/- {results.nobs_sd:.3g} (dp)" if results.nobs_sd else ""
    slopes = informative_slopes_test(results)
    return [
        ("Dep. Variable:", naming.yname),
        ("Model:", results.model_name),
        ("Mechanism:", results.mechanism),
        *([("Loss:", results.loss)] if results.is_perturbed else []),
        ("No. Rows:" if results.is_perturbed else "No. Observations:", f"{results.nobs:.0f}{noise}"),
        ("Df Residuals:", f"{results.df_resid:.0f}"),
        *([] if results.is_binary else _quality(results)),
        ("Wald chi2 / m:", "-" if slopes is None else f"{slopes.fvalue:.4g} (m = {slopes.df_num})"),
        ("Prob (chi2):", "-" if slopes is None else _probability(slopes)),
    ]


def _quality(results: DPResults) -> list[tuple[str, str]]:
    error = f"{math.sqrt(results.scale):.4g}"
    if results.is_perturbed:
        return [("Clipped Resid. S.E.:", error)]
    return [
        ("R-squared (noisy):" if results.k_constant else "R-squared (uncentered):", _decimal(results.rsquared)),
        ("Adj. R-squared:", _decimal(results.rsquared_adj)),
        ("Residual Std. Err.:", error),
    ]


def _right(results: DPResults, warning: str) -> list[tuple[str, str]]:
    number = results.kappa
    rows = [
        *_privacy_rows(results, warning),
        ("Bounds, levels:", results.declared),
        ("Missing:", _missing(results)),
        ("Signal:", f"{word(number)} (kappa = {number:.2g})"),
    ]
    if results.is_classifier:
        return [*rows, ("Covariance Type:", results.cov_type)]
    if results.is_binary:
        return rows
    return [*rows, ("Covariance Type:", results.cov_type), ("Df Model:", f"{results.df_model:.0f}"), ("", "")]


def _missing(results: DPResults) -> str:
    if results.design.rules.missing == "none":
        return "none (declared)"
    return "rows dropped, not counted" if results.is_perturbed else "rows dropped, count noisy"


def _privacy_rows(results: DPResults | PointResults, warning: str) -> list[tuple[str, str]]:
    privacy = results.privacy
    shared = results.shares_release
    return [
        ("Privacy:", "NOT PRIVATE" if warning else str(privacy.budget)),
        ("Spent:", "unbounded" if warning else f"{privacy.spent}{', shared' if shared else ''}"),
        ("Neighbors:", privacy.protection.relation),
        ("Privacy unit:", privacy.protection.unit),
        *([("Ledger:", privacy.ledger)] if privacy.ledger else []),
    ]


def _probability(test: JointTest) -> str:
    """Print a p-value; simulated ones have a floor."""
    return f"<= {test.pvalue:.1g}" if test.is_floor else f"{test.pvalue:.3g}"


def _decimal(value: float) -> str:
    return "hidden by noise" if math.isnan(value) else f"{value:.3f}"


def _coefficient_table(results: DPResults, alpha: float, naming: Naming) -> Any:
    from statsmodels.iolib.summary import forg
    from statsmodels.iolib.table import SimpleTable
    from statsmodels.iolib.tableformatting import fmt_params

    rows = []
    ends = results.conf_int(alpha).to_numpy()
    columns = (results.params, results.bse, results.bse_privacy, results.tvalues, results.pvalues)
    for (coefficient, error, privacy, ratio, p), (low, high) in zip(zip(*columns, strict=True), ends, strict=True):
        hidden = math.isinf(low)
        rows.append(
            [
                forg(coefficient, prec=4),
                "-" if hidden else forg(error),
                "-" if hidden else forg(privacy),
                "-" if hidden else forg(ratio),
                f"{p:#6.3f}",
                *(f"{end:9}" if math.isinf(end) else forg(end) for end in (low, high)),
            ]
        )
    header = ["coef", "std err", "privacy", "z", "P>|z|", f"[{alpha / 2:g}", f"{1 - alpha / 2:g}]"]
    style = {**fmt_params, "data_fmts": ["%s", "%s", "%s", "%8s", "%s", "%11s", "%11s"]}
    return SimpleTable(rows, header, naming.xname, txt_fmt=style)
