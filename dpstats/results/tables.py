"""Fits side by side: one column per fit, as papers print them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from dpstats.errors import OptionError, shown
from dpstats.results.contrast_test import check_alpha
from dpstats.results.table_columns import FACTS, TableColumn, column_of
from dpstats.results.table_formats import FORMATS, TableCells
from dpstats.results.table_notes import HIDDEN, NOT_PRIVATE, STARS, notes_of

LEVELS_OF_STARS = (0.1, 0.05, 0.01)


def regression_table(
    fits: Sequence[Any],
    *,
    format: Literal["text", "latex", "html", "markdown"] = "text",
    model_names: Sequence[str] | None = None,
    below: Literal["se", "interval"] = "se",
    alpha: float = 0.05,
    stars: bool = False,
    labels: Mapping[str, str] | None = None,
    order: Sequence[str] = (),
    drop: Sequence[str] = (),
    float_format: str | None = None,
    title: str = "",
) -> str:
    r"""Return a table of several fits, ours and statsmodels' beside each other.

    Parameters
    ----------
    fits : list of results
        Of `dp_ols`, `dp_logit`, `dp_svm`, or of statsmodels (one equation).
    format : {"text", "latex", "html", "markdown"}
        LaTeX needs ``\usepackage{booktabs}``, and XeLaTeX or LuaLaTeX for letters beyond Latin.
    model_names : list of str, optional
        A further line of the head.
    below : {"se", "interval"}
        Below each coefficient: its standard error in parentheses or its confidence interval in brackets.
    alpha : float
        1 - alpha is the level of the intervals.
    stars : bool
        True marks coefficients with p < 0.1, 0.05 and 0.01.
    labels : dict of str to str, optional
        What to print for a coefficient's name. Coefficients of one label share a row, as in
        ``{"bs(x, df=4)[1]": "spline 1", "bs(x, df=4)[0]": "spline 1"}`` for a fit of ours and one of statsmodels.
    order : list of str, optional
        Coefficients that come first; the others follow as they first occur.
    drop : list of str, optional
        Coefficients that are left out.
    float_format : str, optional
        Of coefficients, errors and intervals, as in ``"%.2f"``. By default as in ``summary()``: four decimals, or
        significant digits where they are very large or small.
    title : str, optional
        Caption.

    Returns
    -------
    str
        The table. Names are escaped. Columns that are not private (statsmodels' own, simulated noise, no noise) say so
        in the head and below, and have epsilon = inf.

    Raises
    ------
    OptionError
        If an argument has a value that it cannot take.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> text = dps.regression_table([fit, fit.refit("hours_per_week ~ age")], labels={"age": "Age in years"})
    >>> [line.split()[0] for line in text.splitlines() if line[0].isalpha()][:4]
    ['Intercept', 'C(sex)[T.Male]', 'Age', 'Observations']
    """
    if not isinstance(format, str) or format not in FORMATS:
        raise OptionError(f"format must be {_listed(FORMATS)}, not {shown(format)}")
    known_as = _labels(labels)
    columns = _columns(fits, check_alpha(alpha), known_as)
    first, left_out = ([known_as.get(n, n) for n in _names(*given)] for given in (("order", order), ("drop", drop)))
    style = _style(below, 1 - alpha, stars, float_format)
    rows = _coefficient_rows(list(columns.values()), _rows_wanted(columns, first, left_out), style)
    notes = notes_of(columns, style.below, hidden=any(f"({HIDDEN})" in row for row in rows))
    cells = TableCells(
        _text("title", title),
        _header(columns, _model_names(model_names, len(columns))),
        rows,
        _fact_rows(list(columns.values())),
        notes + ([STARS] if style.stars else []),
    )
    return FORMATS[format](cells.map(_one_line))


@dataclass(frozen=True, slots=True)
class _Style:
    """How a coefficient is printed: what stands below it, stars, and the format of numbers."""

    below: str
    interval: bool
    stars: bool
    float_format: str | None

    def number(self, value: float) -> str:
        if self.float_format is not None:
            return (self.float_format % value).strip()
        from statsmodels.iolib.summary import forg

        return str(forg(value, prec=4)).strip()

    def estimate(self, row: pd.Series) -> str:
        stars = "*" * sum(row["p_value"] < level for level in LEVELS_OF_STARS) if self.stars else ""
        return self.number(row["estimate"]) + stars

    def uncertainty(self, row: pd.Series) -> str:
        if self.interval:
            ends = f"{self.number(row['conf_low'])}, {self.number(row['conf_high'])}"
            return "" if math.isnan(row["conf_low"]) else f"[{ends}]"
        if math.isinf(row["conf_low"]):
            return f"({HIDDEN})"
        return "" if math.isnan(row["std_error"]) else f"({self.number(row['std_error'])})"


def _coefficient_rows(columns: list[TableColumn], names: list[str], style: _Style) -> list[list[str]]:
    """Return two rows per coefficient: name and estimates, then an empty name and their uncertainty."""
    rows = []
    for name in names:
        found = [column.coefficients.loc[name] if name in column.coefficients.index else None for column in columns]
        rows.append([name, *("" if row is None else style.estimate(row) for row in found)])
        rows.append(["", *("" if row is None else style.uncertainty(row) for row in found)])
    return rows


def _fact_rows(columns: list[TableColumn]) -> list[list[str]]:
    used = [name for name in FACTS if any(name in column.facts for column in columns)]
    return [[name, *(column.facts.get(name, "") for column in columns)] for name in used]


def _header(columns: Mapping[str, TableColumn], names: list[str]) -> list[list[str]]:
    shown_columns = columns.values()
    marks = [NOT_PRIVATE if column.not_private else "" for column in shown_columns]
    lines = [names, [column.response for column in shown_columns], [column.model for column in shown_columns], marks]
    return [list(columns), *(line for line in lines if any(line))]


def _one_line(text: str) -> str:
    """Return text without line breaks, which a level's name may hold and no cell can."""
    return " ".join(text.split())


# -- arguments -------------------------------------------------------------------------------------------------------


def _columns(fits: Any, alpha: float, labels: Mapping[str, str]) -> dict[str, TableColumn]:
    if not isinstance(fits, list | tuple) or not fits:
        raise OptionError(f"fits must be a list of results, as in regression_table([fit1, fit2]); not {shown(fits)}")
    return {f"({i + 1})": column_of(fit, f"fits[{i}]", alpha, labels) for i, fit in enumerate(fits)}


def _rows_wanted(columns: Mapping[str, TableColumn], order: list[str], drop: list[str]) -> list[str]:
    known = dict.fromkeys(name for column in columns.values() for name in column.coefficients.index)
    for argument, wanted in (("order", order), ("drop", drop)):
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise OptionError(f"{argument} has {shown(unknown[0])}; the coefficients are {', '.join(known)}")
    return [name for name in dict.fromkeys([*order, *known]) if name not in drop]


def _style(below: Any, level: float, stars: Any, float_format: Any) -> _Style:
    words = {"se": "Standard errors in parentheses", "interval": f"{100 * level:g}% confidence intervals in brackets"}
    if not isinstance(below, str) or below not in words:
        raise OptionError(f"below must be {_listed(words)}, not {shown(below)}")
    if not isinstance(stars, bool):
        raise OptionError(f"stars must be True or False, not {shown(stars)}")
    if float_format is not None:
        _require_format(float_format)
    return _Style(words[below], below == "interval", stars, float_format)


def _require_format(float_format: Any) -> None:
    try:
        _ = float_format % 1.0
        usable = isinstance(float_format, str)
    except (TypeError, ValueError):
        usable = False
    if not usable:
        raise OptionError(f"float_format must format one number, as in '%.2f'; not {shown(float_format)}")


def _model_names(names: Any, n: int) -> list[str]:
    checked = [""] * n if names is None else _names("model_names", names)
    if len(checked) != n:
        raise OptionError(f"model_names must hold one name per fit: {n}, not {len(checked)}")
    return checked


def _names(argument: str, names: Any) -> list[str]:
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        example = f"{argument}=[{names!r}]" if isinstance(names, str) else f"{argument}=['age', 'C(sex)[T.Male]']"
        raise OptionError(f"{argument} must be a list of names, as in {example}; not {shown(names)}")
    return list(names)


def _labels(labels: Any) -> Mapping[str, str]:
    if labels is None:
        return {}
    if not isinstance(labels, Mapping) or not all(isinstance(text, str) for pair in labels.items() for text in pair):
        raise OptionError(
            f"labels must map names to texts, as in labels={{'age': 'Age in years'}}; not {shown(labels)}"
        )
    return labels


def _text(argument: str, text: Any) -> str:
    if not isinstance(text, str):
        raise OptionError(f"{argument} must be text, as in {argument}='Hours worked'; not {shown(text)}")
    return text


def _listed(names: Any) -> str:
    *others, last = map(repr, names)
    return f"{', '.join(others)} or {last}"
