"""The printed regression table, made of statsmodels' own table parts."""

from __future__ import annotations

import copy
import html
import math
import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpstats.inference.diagnostics import word

if TYPE_CHECKING:
    from dpstats.results.joint_test import JointTest
    from dpstats.results.point import PointResults
    from dpstats.results.results import DPResults

_NOISE = {"real": "", "simulated": "NOT PRIVATE: simulated noise", "none": "NOT PRIVATE: no noise"}

_LATEX_CELL = str.maketrans(
    {
        "\\": r"\textbackslash ",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde ",
        "^": r"\textasciicircum ",
        "<": r"\textless ",
    }
)
"""What statsmodels leaves unescaped in cells; it escapes # $ % & > _ | itself."""
_LATEX = _LATEX_CELL | str.maketrans(
    {"#": r"\#", "$": r"\$", "%": r"\%", "&": r"\&", ">": r"\textgreater ", "_": r"\_", "|": r"\textbar "}
)


def summarize(results: DPResults, alpha: float) -> Any:
    """Return a statsmodels ``Summary`` of a fit.

    Parameters
    ----------
    results : DPResults
        The fit.
    alpha : float
        Level of the intervals is 1 - alpha.
    """
    warning = _NOISE[results.privacy.noise]
    return _assemble(
        results,
        warning,
        _left(results),
        _right(results, warning),
        _coefficient_table(results, alpha),
        _notes(results, alpha, warning),
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
    return _assemble(results, warning, left, _privacy_rows(results, warning), table, notes + _warning_note(warning))


def _assemble(
    results: DPResults | PointResults,
    warning: str,
    left: list[tuple[str, str]],
    right: list[tuple[str, str]],
    coefficients: Any,
    notes: list[str],
) -> Any:
    title = f"{results.model_name} Regression Results" + (f" - {warning}" if warning else "")
    summary = escaping_summary()
    summary.add_table_2cols(
        results,
        title=title,
        gleft=[(name, [value]) for name, value in left],
        gright=[(name, [value]) for name, value in right],
        yname=results.model.endog_names,
        xname=results.model.exog_names,
    )
    summary.tables.append(coefficients)
    summary.add_extra_txt(["Notes:", *(f"[{i}] {_wrapped(note)}" for i, note in enumerate(notes, start=1))])
    return summary


def _wrapped(note: str) -> str:
    """Break a note into lines of the table's width."""
    return textwrap.fill(note, 106, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def escaping_summary() -> Any:
    """Return an empty statsmodels ``Summary`` that escapes what statsmodels leaves as it is."""
    from statsmodels.iolib.summary import Summary

    class DPSummary(Summary):  # type: ignore[misc]
        """A statsmodels summary with escaped HTML and LaTeX, and CSV whose cells may hold commas."""

        def as_html(self) -> str:
            plain = self._with_cells(html.escape)
            for table in plain.tables:
                table.title = html.escape(table.title) if table.title else table.title
            plain.extra_txt = html.escape(plain.extra_txt or "")
            return str(super(DPSummary, plain).as_html())

        def as_latex(self) -> str:
            plain = self._with_cells(lambda text: text.translate(_LATEX_CELL))
            plain.extra_txt = (plain.extra_txt or "").translate(_LATEX)
            return str(super(DPSummary, plain).as_latex())

        def as_csv(self) -> str:
            plain = self._with_cells(lambda text: '"' + text.replace('"', '""') + '"' if "," in text else text)
            return str(super(DPSummary, plain).as_csv())

        def _with_cells(self, escape: Callable[[str], str]) -> DPSummary:
            plain = copy.deepcopy(self)
            for table in plain.tables:
                for row in table:
                    for cell in row:
                        cell.data = escape(str(cell.data))
            return plain

    return DPSummary()


def _left(results: DPResults) -> list[tuple[str, str]]:
    noise = f" +/- {results.nobs_sd:.3g} (dp)" if results.nobs_sd else ""
    slopes = results.slopes_test()
    if slopes is not None and results.is_singular and slopes.pvalue == 1.0:
        slopes = None
    return [
        ("Dep. Variable:", results.model.endog_names),
        ("Model:", results.model_name),
        ("Mechanism:", results.mechanism),
        *([("Loss:", results.loss)] if results.is_classifier else []),
        ("No. Rows:" if results.is_classifier else "No. Observations:", f"{results.nobs:.0f}{noise}"),
        ("Df Residuals:", f"{results.df_resid:.0f}"),
        *([] if results.is_binary else _quality(results)),
        ("Wald chi2 / m:", "-" if slopes is None else f"{slopes.fvalue:.4g} (m = {slopes.df_num})"),
        ("Prob (chi2):", "-" if slopes is None else _probability(slopes)),
    ]


def _quality(results: DPResults) -> list[tuple[str, str]]:
    return [
        ("R-squared (noisy):", _decimal(results.rsquared)),
        ("Adj. R-squared:", _decimal(results.rsquared_adj)),
        ("Residual Std. Err.:", f"{math.sqrt(results.scale):.4g}"),
    ]


def _right(results: DPResults, warning: str) -> list[tuple[str, str]]:
    number = results.kappa
    rows = [
        *_privacy_rows(results, warning),
        ("Bounds, levels:", results.declared),
        ("Missing:", "rows dropped, not counted" if results.is_classifier else "rows dropped, count noisy"),
        ("Signal:", f"{word(number)} (kappa = {number:.2g})"),
    ]
    if results.is_classifier:
        return [*rows, ("Covariance Type:", results.cov_type)]
    if results.is_binary:
        return rows
    return [*rows, ("Covariance Type:", results.cov_type), ("Df Model:", f"{results.df_model:.0f}"), ("", "")]


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


def _coefficient_table(results: DPResults, alpha: float) -> Any:
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
    return SimpleTable(rows, header, list(results.model.exog_names), txt_fmt=style)


def _notes(results: DPResults, alpha: float, warning: str) -> list[str]:
    notes = [
        'std err contains sampling and privacy noise; "privacy" is the part that is privacy noise.',
        f"Intervals and P>|z| invert a test that accounts for the noise in {_noisy_matrix(results)} (Fieller): "
        "intervals are asymmetric, possibly unbounded, and P>|z| cannot be read off z.",
        f"Estimand: {results.release.estimand}. Values outside the bounds are clipped, undeclared levels and "
        "unreadable entries count as missing.",
    ]
    notes += results.release.remarks
    if results.is_classifier:
        notes.append(f"Success is {results.model.endog_names} = {results.levels[-1]}.")
    if results.is_classifier and results.is_large_step and results.privacy.noise != "none":
        notes.append(
            "The ridge is strong beside the data: taking it out is a large step, so that estimates and intervals are "
            "rough."
        )
    unbounded = any(math.isinf(low) for low in results.conf_int(alpha)[0])
    if unbounded and results.privacy.noise == "none":
        notes.append("(-inf, inf): the columns do not identify this coefficient.")
    elif unbounded:
        notes.append(
            "(-inf, inf): the privacy noise leaves this coefficient unidentified; a larger epsilon, more rows, fewer "
            "columns or tighter bounds would help."
        )
    elif results.outweighed:
        notes.append(
            f"The ridge outweighs the data in {', '.join(results.outweighed)}: estimate and interval say little about "
            "the least-squares coefficient. A larger epsilon, more rows or tighter bounds would help."
        )
    if results.shares_release:
        notes.append(
            f"Fitted from the release of {results.release.formula!r} on its complete rows; what was spent on it is "
            "shared by all fits from it."
        )
    if results.cov_type.startswith("HC"):
        notes.append(f"Standard errors are heteroskedasticity-consistent ({results.cov_type}), from a further release.")
    if results.scale_clamped and not results.is_binary:
        notes.append(
            "The noise hides the residual variance; Residual Std. Err. and the sampling part of std err are guesses."
        )
    return notes + _warning_note(warning)


def _noisy_matrix(results: DPResults) -> str:
    return "the Hessian" if results.is_classifier else "X'X"


def _warning_note(warning: str) -> list[str]:
    return [f"{warning}. Do not publish this table as a private release."] if warning else []
