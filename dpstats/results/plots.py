"""Coefficient plots: estimates with their total interval and the part of it that is sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.errors import OptionError, shown
from dpstats.results.axes import (
    COLORS,
    MARKERS,
    axes_for,
    label_rows,
    legend_below,
    mark_not_private,
    plain,
    width_for,
)
from dpstats.results.contrast_test import check_alpha

CONSTANTS = ("Intercept", "const")
THIN, THICK = 1.3, 4.5


@dataclass(frozen=True, slots=True)
class Intervals:
    """What is drawn of one fit, each array of shape (q,).

    Attributes
    ----------
    label : str
        Of the fit.
    names : list of str
        Of the rows.
    estimate, lower, upper : ndarray
        Centre and ends; an infinite end means that the interval is unbounded.
    sampling : ndarray
        Half the width of the sampling part; nan where it is not drawn.
    is_private : bool
        False marks the picture.
    """

    label: str
    names: list[str]
    estimate: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    sampling: NDArray[np.float64]
    is_private: bool

    @property
    def bounded(self) -> NDArray[np.bool_]:
        """Where the interval has two finite ends, shape (q,)."""
        return np.isfinite(self.lower) & np.isfinite(self.upper)

    @property
    def unbounded(self) -> NDArray[np.bool_]:
        """Where an end is infinite, shape (q,); neither holds where there is no interval."""
        return np.isinf(self.lower) | np.isinf(self.upper)

    def only(self, names: Sequence[str]) -> Intervals:
        """Return the rows of these names, in one's own order."""
        kept = [name in names for name in self.names]
        columns = {name: getattr(self, name)[kept] for name in ("estimate", "lower", "upper", "sampling")}
        return replace(self, names=[name for name in self.names if name in names], **columns)


def coefplot(
    *fits: Any,
    ax: Any = None,
    alpha: float = 0.05,
    labels: Sequence[str] | None = None,
    intercept: bool = False,
) -> Any:
    """Draw the coefficients of one or several fits with their intervals; needs the ``plot`` extra.

    A thin line is the whole interval, sampling and privacy noise together; a thick one is the sampling part, estimate
    -/+ z times `bse_sampling`, which a fit without privacy would have too. An interval that the noise leaves unbounded
    is an arrow from edge to edge, with a hollow marker.

    Parameters
    ----------
    *fits : DPResults or statsmodels results
        In any mixture. A fit without privacy marks the picture NOT PRIVATE.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    alpha : float
        Intervals are of level 1 - alpha.
    labels : sequence of str, optional
        One for each fit.
    intercept : bool
        Whether to draw the intercept too.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    OptionError
        If there is no fit, one has no intervals, or an argument is out of range.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ age + C(sex)", adult, epsilon=1, schema=schema)
    >>> dps.coefplot(fit).get_xlabel()
    'coefficient'
    """
    level = check_alpha(alpha)
    series = [_intervals_of(fit, level, number) for number, fit in enumerate(fits, start=1)]
    if not series:
        raise OptionError("coefplot draws one or several fits; write coefplot(fit)")
    titles = _labels(labels, [part.label for part in series])
    names = list(dict.fromkeys(name for part in series for name in part.names))
    names = [name for name in names if intercept or name not in CONSTANTS]
    if not names:
        raise OptionError("the fits have no coefficient but the intercept; write coefplot(..., intercept=True)")
    series = [part.only(names) for part in series]
    series = [replace(part, label=title) for part, title in zip(series, titles, strict=True)]
    width = width_for(names, titles if len(series) > 1 else ())
    ax = axes_for(ax, "coefplot", width, 1.5 + len(names) * (0.22 + 0.13 * len(series)))
    ax.axvline(0.0, color="0.7", linewidth=0.8, zorder=0)
    ax.set_xlabel("coefficient")
    draw_intervals(ax, series, names, show_labels=len(series) > 1 or labels is not None, level=level)
    return ax


def draw_intervals(ax: Any, series: Sequence[Intervals], names: list[str], *, show_labels: bool, level: float) -> None:
    """Draw intervals row by row, those of several fits beside each other, with a legend.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where; its x axis has its label.
    series : sequence of Intervals
        One for each fit, with rows among `names`.
    names : list of str
        Rows from top to bottom.
    show_labels : bool
        Whether the legend names the fits.
    level : float
        Alpha, for the legend.
    """
    label_rows(ax, names)
    rows = {name: row for row, name in enumerate(names)}
    step = 0.8 / len(series)
    heights = []
    for number, part in enumerate(series):
        offset = (number - (len(series) - 1) / 2) * step
        height = np.array([rows[name] for name in part.names], dtype=np.float64) + offset
        _draw_bounded(ax, part, height, *_look(number))
        heights.append(height)
    ax.autoscale_view(scaley=False)
    limits = ax.get_xlim() if any(part.bounded.any() for part in series) else None
    for number, (part, height) in enumerate(zip(series, heights, strict=True)):
        _draw_unbounded(ax, part, height, *_look(number))
    if limits is not None:  # where nothing is known an estimate may lie anywhere
        ax.set_xlim(limits)
    _add_legend(ax, series, show_labels, level)
    if not all(part.is_private for part in series):
        mark_not_private(ax)


def _look(number: int) -> tuple[str, str]:
    return COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)]


def _draw_bounded(ax: Any, part: Intervals, height: NDArray[np.float64], color: str, marker: str) -> None:
    at = part.bounded
    ax.hlines(height[at], part.lower[at], part.upper[at], colors=color, linewidth=THIN, gid="total")
    at = part.bounded & np.isfinite(part.sampling)
    low, high = part.estimate - part.sampling, part.estimate + part.sampling
    ax.hlines(height[at], low[at], high[at], colors=color, linewidth=THICK, alpha=0.55, gid="sampling")
    at = ~part.unbounded
    style = {"markersize": 5.5, "markeredgecolor": "white", "markeredgewidth": 0.7, "zorder": 3}
    ax.plot(part.estimate[at], height[at], marker, color=color, gid="estimate", **style)


def _draw_unbounded(ax: Any, part: Intervals, height: NDArray[np.float64], color: str, marker: str) -> None:
    at = part.unbounded
    if not at.any():
        return
    arrow = {"arrowstyle": "<->", "color": color, "linewidth": THIN, "shrinkA": 0, "shrinkB": 0}
    for y in height[at]:
        across = ax.get_yaxis_transform()  # from edge to edge, whatever the limits become
        ax.annotate("", (1.0, y), (0.0, y), xycoords=across, textcoords=across, arrowprops=arrow, gid="unbounded")
    style = {"markersize": 5.5, "markerfacecolor": "white", "zorder": 3}
    ax.plot(part.estimate[at], height[at], marker, color=color, gid="unidentified", **style)


def _add_legend(ax: Any, series: Sequence[Intervals], show_labels: bool, level: float) -> None:
    """Explain the fits in the first column, and the lines in the second."""
    from matplotlib.lines import Line2D

    fits: list[Any] = []
    for number, part in enumerate(series if show_labels else ()):
        color, marker = _look(number)
        label = plain(part.label) + ("" if part.is_private else " (NOT PRIVATE)")
        fits.append(Line2D([], [], color=color, marker=marker, linewidth=THIN, label=label))
    lines: list[Any] = []
    if any(part.bounded.any() for part in series):
        lines.append(Line2D([], [], color="0.3", linewidth=THIN, label=f"{100 * (1 - level):g}% interval"))
    if any((part.bounded & np.isfinite(part.sampling)).any() for part in series):
        lines.append(Line2D([], [], color="0.3", alpha=0.55, linewidth=THICK, label="its sampling part"))
    if any(part.unbounded.any() for part in series):
        hollow: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "label": "unbounded interval"}
        lines.append(Line2D([], [], color="0.3", linewidth=THIN, **hollow))
    if fits:
        blank = [Line2D([], [], linewidth=0, label=" ")] * (len(lines) - len(fits))
        legend_below(ax, [*fits, *blank, *lines], 2)
    else:
        legend_below(ax, lines, 2)


def _intervals_of(fit: Any, alpha: float, number: int) -> Intervals:
    refusal = getattr(fit, "no_inference", None)
    if isinstance(refusal, str):
        raise OptionError(f"fit {number} has no intervals to draw. {refusal}")
    names = getattr(getattr(fit, "model", None), "exog_names", None)
    params = np.asarray(getattr(fit, "params", None), dtype=object)
    if not isinstance(names, list) or params.shape != (len(names),) or not callable(getattr(fit, "conf_int", None)):
        raise OptionError(
            f"fit {number} must be a result of dpstats or statsmodels with one coefficient for each column, not "
            f"{shown(fit)}; write coefplot(fit1, fit2)"
        )
    ends = np.asarray(fit.conf_int(alpha), dtype=np.float64)
    errors = np.asarray(getattr(fit, "bse_sampling", fit.bse), dtype=np.float64)
    privacy = getattr(fit, "privacy", None)
    label = type(fit.model).__name__ if privacy is None else f"{fit.model_name}, {privacy.budget}"
    sampling = ndtri(1 - alpha / 2) * errors
    estimate = params.astype(np.float64)
    is_private = bool(getattr(privacy, "is_private", False))
    return Intervals(label, [*names], estimate, ends[:, 0], ends[:, 1], sampling, is_private)


def _labels(labels: Any, default: list[str]) -> list[str]:
    """Return the labels of the fits; those of fits alike get numbers."""
    if labels is None:
        return [
            label if default.count(label) == 1 else f"{label} ({default[:i].count(label) + 1})"
            for i, label in enumerate(default)
        ]
    if isinstance(labels, str) or not isinstance(labels, Sequence) or len(labels) != len(default):
        raise OptionError(
            f"labels must be a list with one text for each of the {len(default)} fits, not {shown(labels)}"
        )
    return [str(label) for label in labels]
