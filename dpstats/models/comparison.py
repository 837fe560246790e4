"""A private fit beside a non-private one: measures of agreement, and a table that says what it is."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import NotPrivateError

MARK = "NOT PRIVATE"
REMINDER = (
    "NOT PRIVATE: what is called non-private comes from the confidential rows without noise, and so does every measure "
    "of agreement. Keep all of it where the data are. Choosing by it what to publish (a formula, a mechanism, one draw "
    "of the noise) makes the published result depend on the data in a way that no ledger has counted: that spends "
    "privacy."
)
OVERLAP = (
    "Overlap of intervals [L, U] and [L', U'], with o = max(0, min(U, U') - max(L, L')): the mean of o / (U - L) and "
    "o / (U' - L') (Karr et al. 2006). It is 1 for equal intervals, 0 for disjoint ones, 0.5 for an unbounded one "
    "about a bounded one."
)
Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Estimates:
    """Coefficients with their inference, nan where there is none (zone: as their source).

    Attributes
    ----------
    params, bse, pvalues : ndarray
        Shape (q,).
    ends : ndarray
        Of the intervals, shape (q, 2).
    """

    params: Vector
    bse: Vector
    ends: Vector
    pvalues: Vector


def interval_overlap(lower: Vector, upper: Vector, lower_other: Vector, upper_other: Vector) -> Vector:
    """Return the overlap of pairs of intervals, between 0 and 1.

    Parameters
    ----------
    lower, upper, lower_other, upper_other : ndarray
        Ends of the intervals, shape (q,); the ends of at most one of a pair are infinite.

    Returns
    -------
    ndarray
        Shape (q,): (o / (U - L) + o / (U' - L')) / 2 with o = max(0, min(U, U') - max(L, L')); an interval of width 0
        counts as covered if it lies in the other. nan where an end is nan.

    Notes
    -----
    Karr, Kohnen, Oganian, Reiter and Sanil (2006), The American Statistician 60(3), with disjoint intervals at 0.

    Examples
    --------
    >>> from numpy import array, inf
    >>> interval_overlap(array([0, 0, -inf]), array([4, 1, inf]), array([1, 2, 0]), array([3, 3, 1])).tolist()
    [0.75, 0.0, 0.5]
    """
    common = np.minimum(upper, upper_other) - np.maximum(lower, lower_other)
    shares = [_share(common, upper - lower), _share(common, upper_other - lower_other)]
    return np.where(np.isnan(common), np.nan, (shares[0] + shares[1]) / 2)


def _share(common: Vector, width: Vector) -> Vector:
    point = (common >= 0).astype(np.float64)
    return np.divide(np.fmax(common, 0.0), width, out=point, where=width > 0)


def agreement(names: list[str], private: Estimates, plain: Estimates, privacy_sd: Vector, alpha: float) -> pd.DataFrame:
    """Return one row of measures per coefficient.

    Parameters
    ----------
    names : list of str
        Of the coefficients.
    private, plain : Estimates
        With and without privacy.
    privacy_sd : ndarray
        The part of the private standard errors that is privacy noise, shape (q,).
    alpha : float
        Level at which significance is compared.
    """
    known = np.isfinite(plain.params)
    (lower, upper), (lower_plain, upper_plain) = private.ends.T, plain.ends.T
    with np.errstate(all="ignore"):
        columns = {
            "coef": private.params,
            "coef_nonprivate": plain.params,
            "std_err": private.bse,
            "std_err_nonprivate": plain.bse,
            "ci_lower": lower,
            "ci_upper": upper,
            "ci_lower_nonprivate": lower_plain,
            "ci_upper_nonprivate": upper_plain,
            "difference": private.params - plain.params,
            "difference_in_std_err": (private.params - plain.params) / private.bse,
            "width_ratio": (upper - lower) / (upper_plain - lower_plain),
            "overlap": interval_overlap(lower, upper, lower_plain, upper_plain),
            "same_sign": _where_known(np.sign(private.params) == np.sign(plain.params), known),
            "same_significance": _where_known((private.pvalues < alpha) == (plain.pvalues < alpha), known),
            "privacy_share": (privacy_sd / private.bse) ** 2,
        }
    table = pd.DataFrame(columns, index=pd.Index(names, name=MARK))
    table.attrs[MARK] = REMINDER
    return table


def _where_known(agrees: NDArray[np.bool_], known: NDArray[np.bool_]) -> Any:
    return pd.arrays.BooleanArray(agrees, ~known)


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A private fit beside the non-private fit of the same rows. NOT PRIVATE, in every rendering.

    It cannot be pickled or copied, so that it is not stored beside a release by accident.

    Attributes
    ----------
    formula : str
        As fitted.
    private : str
        The private fit: model, mechanism, budget.
    nonprivate : str
        The other one, with its exact number of complete rows.
    estimand : str
        What the private coefficients estimate.
    alpha : float
        Intervals are of level 1 - alpha; significance is compared at alpha.
    is_private : bool
        Whether the noise of the private fit is real.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> comparison = dps.compare(fit, adult)
    >>> comparison.to_frame().index.name
    'NOT PRIVATE'
    """

    formula: str
    private: str
    nonprivate: str
    estimand: str
    alpha: float
    is_private: bool
    _table: pd.DataFrame

    def to_frame(self) -> pd.DataFrame:
        """Return all measures, one row per coefficient.

        Returns
        -------
        pandas.DataFrame
            ``coef``, ``std_err``, ``ci_lower``, ``ci_upper`` of both fits (those without privacy end in
            ``_nonprivate``); ``difference``, the same in private standard errors; ``width_ratio`` of the intervals,
            private / non-private; ``overlap`` of the intervals (`interval_overlap`); ``same_sign``;
            ``same_significance`` at `alpha`; ``privacy_share``, the part of the private variance that is privacy noise.
            The index is called NOT PRIVATE, and ``attrs`` say why.
        """
        return self._table.copy()

    @property
    def headline(self) -> str:
        """The comparison in one line."""
        table = self._table.dropna(subset=["width_ratio", "overlap", "same_sign"])
        n = len(table)
        if not n:
            return f"{MARK}: the non-private fit identifies no coefficient."
        return (
            f"{MARK}: {np.isfinite(table['width_ratio']).sum()} of {n} intervals bounded, median width ratio "
            f"{table['width_ratio'].median():.3g}, mean overlap {table['overlap'].mean():.2f}; same sign "
            f"{table['same_sign'].sum()} of {n}, same significance at {self.alpha:g} "
            f"{table['same_significance'].sum()} of {n}."
        )

    def summary(self) -> Any:
        """Return the comparison as a printable table: text, LaTeX, HTML or CSV."""
        from dpstats.results.escaping_summary import escaping_summary

        summary = escaping_summary()
        summary.tables += [_estimates_table(self._table, self.alpha), _agreement_table(self._table, self.alpha)]
        notes = [
            self.headline,
            f"{self.formula}: {self.private}, beside {self.nonprivate}.",
            f"Private estimand: {self.estimand}.",
            OVERLAP,
            REMINDER,
        ]
        summary.add_extra_txt([_wrapped(f"[{i}] {note}") for i, note in enumerate(notes, start=1)])
        return summary

    def to_latex(self) -> str:
        """Return the comparison as LaTeX tables with notes."""
        return str(self.summary().as_latex())

    def plot(self, ax: Any = None) -> Any:
        """Draw both intervals of each coefficient; as `plot_comparison`."""
        from dpstats.models.comparison_plot import plot_comparison

        return plot_comparison(self, ax=ax)

    def __repr__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return str(self.summary().as_html())

    def __reduce__(self) -> Any:
        raise NotPrivateError(
            f"a Comparison is {MARK}: it is not pickled or copied, so that it does not travel with a release; make it "
            "again with dps.compare(fit, data) where the data are"
        )


def _wrapped(note: str) -> str:
    return textwrap.fill(note, 110, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _estimates_table(table: pd.DataFrame, alpha: float) -> Any:
    level = f"{100 * (1 - alpha):g}% interval"
    header = [MARK, "coef", "non-private", "std err", "non-private", level, "non-private"]
    rows = [
        [
            name,
            *map(_number, (row.coef, row.coef_nonprivate)),
            "-" if math.isinf(row.ci_lower) else _number(row.std_err),
            _number(row.std_err_nonprivate),
            _interval(row.ci_lower, row.ci_upper),
            _interval(row.ci_lower_nonprivate, row.ci_upper_nonprivate),
        ]
        for name, row in table.iterrows()
    ]
    return _simple_table(header, rows, f"{MARK}: a private fit beside the non-private one")


def _agreement_table(table: pd.DataFrame, alpha: float) -> Any:
    header = [MARK, "difference", "/ std err", "width ratio", "overlap", "same sign", f"same p<{alpha:g}", "privacy"]
    rows = [
        [
            name,
            _number(row.difference),
            "-" if math.isinf(row.ci_lower) else _rounded(row.difference_in_std_err),
            *map(_rounded, (row.width_ratio, row.overlap)),
            *("-" if value is pd.NA else "yes" if value else "no" for value in (row.same_sign, row.same_significance)),
            "-" if math.isinf(row.ci_lower) or math.isnan(row.privacy_share) else f"{100 * row.privacy_share:.0f}%",
        ]
        for name, row in table.iterrows()
    ]
    return _simple_table(header, rows, None)


def _simple_table(header: list[str], rows: list[list[str]], title: str | None) -> Any:
    from statsmodels.iolib.table import SimpleTable
    from statsmodels.iolib.tableformatting import fmt_params

    style = {**fmt_params, "data_fmts": ["%s"], "data_aligns": "l" + "r" * (len(header) - 1)}
    return SimpleTable(rows, header, title=title, txt_fmt=style)


def _number(value: float) -> str:
    from statsmodels.iolib.summary import forg

    return "-" if math.isnan(value) else str(forg(value, prec=4)).strip()


def _rounded(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _interval(lower: float, upper: float) -> str:
    return "-" if math.isnan(lower) else f"[{_number(lower)}, {_number(upper)}]"
