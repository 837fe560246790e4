"""The picture of a comparison. NOT PRIVATE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from dpstats.errors import OptionError, shown
from dpstats.models.comparison import Comparison
from dpstats.results.axes import axes_for, right_column, width_for
from dpstats.results.plots import CONSTANTS, Intervals, draw_intervals


def plot_comparison(comparison: Comparison, ax: Any = None, *, intercept: bool = False) -> Any:
    """Draw the private and the non-private interval of each coefficient; needs the ``plot`` extra. NOT PRIVATE.

    Width ratio and overlap stand beside each row.

    Parameters
    ----------
    comparison : Comparison
        From `compare`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    intercept : bool
        Whether to draw the intercept too.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    OptionError
        If an argument is something else, or there is no coefficient to draw.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> ax = dps.plot_comparison(dps.compare(fit, adult))
    >>> ax.get_title(loc="left")
    'NOT PRIVATE'
    """
    if not isinstance(comparison, Comparison):
        raise OptionError(f"comparison must come from dps.compare(fit, data), not {shown(comparison)}")
    table = comparison.to_frame()
    table = table if intercept else table.drop(index=list(CONSTANTS), errors="ignore")
    names = [str(name) for name in table.index]
    if not names:
        raise OptionError("there is no coefficient but the intercept; write plot_comparison(..., intercept=True)")
    ax = axes_for(ax, "plot_comparison", width_for(names) + 1.2, 1.8 + 0.48 * len(names))
    ax.axvline(0.0, color="0.7", linewidth=0.8, zorder=0)
    z = float(ndtri(1 - comparison.alpha / 2))
    both = [
        _intervals("private", table, "", z * np.sqrt(1 - table["privacy_share"]), comparison.is_private),
        _intervals("non-private", table, "_nonprivate", z, False),
    ]
    ax.set_xlabel("coefficient")
    draw_intervals(ax, both, names, show_labels=True, level=comparison.alpha)
    beside = [_beside(row.width_ratio, row.overlap) for row in table.itertuples()]
    right_column(ax, "width ratio, overlap", beside)
    return ax


def _intervals(label: str, table: pd.DataFrame, suffix: str, half_width: Any, is_private: bool) -> Intervals:
    estimate, lower, upper = (table[name + suffix].to_numpy() for name in ("coef", "ci_lower", "ci_upper"))
    sampling = (half_width * table["std_err" + suffix]).to_numpy()
    return Intervals(label, list(map(str, table.index)), estimate, lower, upper, sampling, is_private)


def _beside(ratio: float, overlap: float) -> str:
    return "-" if np.isnan(overlap) else f"{ratio:.2f}, {overlap:.2f}"
