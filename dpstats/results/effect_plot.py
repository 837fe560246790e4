"""Effect plots: predictions over the declared range of one raw column, the others held at public constants."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dpstats.errors import OptionError, shown
from dpstats.results.axes import COLORS, axes_for, legend_below, mark_not_private, plain, width_for
from dpstats.results.classifier import DPLogitResults, DPSVMResults
from dpstats.results.contrast_test import check_alpha
from dpstats.results.plots import Intervals, draw_intervals
from dpstats.results.point import PointResults
from dpstats.results.prediction import model_rows
from dpstats.results.results import DPResults
from dpstats.specification.design import Design
from dpstats.specification.schema import Continuous

LINE = 1.8
WRAP = 70


def plot_effect(
    fit: DPResults,
    column: str,
    ax: Any = None,
    *,
    at: Mapping[str, Any] | None = None,
    alpha: float = 0.05,
    n_points: int = 100,
) -> Any:
    """Draw predictions over the declared range, or the levels, of one raw column; needs the ``plot`` extra.

    The band is pointwise and holds sampling and privacy noise, under the known law of the noise. The other columns are
    held at public constants: the middle of a declared range, the first level of a category, 0 or False.

    Parameters
    ----------
    fit : DPResults
        With intervals, so not of AdaSSP.
    column : str
        A raw column of the formula's right-hand side, such as ``"age"`` where the formula has ``bs(age, df=4)``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.
    at : dict of str to value, optional
        Public values at which other raw columns are held instead.
    alpha : float
        Intervals are of level 1 - alpha at each point.
    n_points : int
        Points over a declared range; at least 2.

    Returns
    -------
    matplotlib.axes.Axes
        The outcome is in the unit of the fit: probabilities for `dp_logit`, decision values for `dp_svm`.

    Raises
    ------
    OptionError
        If the fit has no intervals, a column is not in the formula, or a value is not in its declaration.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import dpstats as dps
    >>> adult, schema = dps.datasets.load_adult()
    >>> fit = dps.dp_ols("hours_per_week ~ bs(age, df=4) + C(sex)", adult, epsilon=1, schema=schema)
    >>> dps.plot_effect(fit, "age", at={"sex": "Male"}).get_ylabel()
    'predicted hours_per_week'
    """
    level = check_alpha(alpha)
    design = _design_of(fit)
    points, held = _points(design, column, n_points), _held(design, column, at)
    effect = _predicted(fit, design, _grid(column, points, held), level)
    where = ", ".join(f"{name} = {_printed(value)}" for name, value in held.items())
    where = "\n" + textwrap.fill(f"at {where}", WRAP) if where else ""
    if isinstance(design.schema[column], Continuous):
        ax = axes_for(ax, "plot_effect", 6.4, 4.4)
        ax.set_xlabel(plain(column + where))
        ax.set_ylabel(plain(_outcome(fit)))
        _draw_curve(ax, np.array(points), effect, level)
    else:
        names = [str(point) for point in points]
        ax = axes_for(ax, "plot_effect", width_for(names), 2.0 + 0.3 * len(names))
        ax.set_xlabel(plain(_outcome(fit) + where))
        ax.set_ylabel(plain(column))
        nothing = np.full(len(points), np.nan)
        rows = Intervals("", names, effect.mean, effect.lower, effect.upper, nothing, fit.privacy.is_private)
        draw_intervals(ax, [rows], names, show_labels=False, level=level)
    if not fit.privacy.is_private:
        mark_not_private(ax)
    return ax


@dataclass(frozen=True, slots=True)
class Effect:
    """Predictions with pointwise intervals (zone: released), each of shape (m,)."""

    mean: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def _design_of(fit: Any) -> Design:
    if isinstance(fit, PointResults):
        raise OptionError(f"fit has no intervals to draw. {fit.no_inference}")
    if not isinstance(fit, DPResults):
        raise OptionError(f"fit must be a result of dp_ols, dp_logit or dp_svm, not {shown(fit)}")
    return fit.design


def _points(design: Design, column: Any, n_points: Any) -> list[Any]:
    names = design.regressor_variables
    if not isinstance(column, str) or column not in names:
        known = ", ".join(map(repr, names)) or "none"
        raise OptionError(f"column must be a raw column of the right-hand side ({known}), not {shown(column)}")
    if isinstance(n_points, bool) or not isinstance(n_points, int) or n_points < 2:
        raise OptionError(f"n_points must be a whole number of at least 2, as in n_points=100; not {shown(n_points)}")
    declared = design.schema[column]
    if isinstance(declared, Continuous):
        return list(np.linspace(declared.lower, declared.upper, n_points))
    return list(declared.levels)


def _held(design: Design, column: str, at: Any) -> dict[str, Any]:
    """Return the value of every other column."""
    if at is not None and not isinstance(at, Mapping):
        raise OptionError(f"at must be a dict such as at={{'age': 40}}, not {shown(at)}")
    held: dict[str, Any] = {}
    for name in design.prediction_variables:
        declared = design.schema[name]
        held[name] = declared.mid if isinstance(declared, Continuous) else declared.levels[0]
    del held[column]
    for name in at or ():
        if name not in held:
            known = ", ".join(map(repr, held)) or "none"
            raise OptionError(f"at may name the other columns of the right-hand side ({known}), not {shown(name)}")
    return held | dict(at or {})


def _grid(column: str, points: list[Any], held: Mapping[str, Any]) -> pd.DataFrame:
    cells = {column: points, **{name: [value] * len(points) for name, value in held.items()}}
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in cells.items()})


def _predicted(fit: DPResults, design: Design, exog: pd.DataFrame, alpha: float) -> Effect:
    rows = model_rows(design, exog)
    if not rows.complete.all():
        raise OptionError("at holds a value that is missing or not a declared level; see the schema")
    found = fit.get_prediction(exog)
    return Effect(found.predicted, *found.conf_int(alpha=alpha).T)


def _outcome(fit: DPResults) -> str:
    name = fit.model.endog_names
    if isinstance(fit, DPSVMResults):
        return f"decision value, positive for {name} = {fit.levels[-1]}"
    if isinstance(fit, DPLogitResults):
        return f"probability of {name} = {fit.levels[-1]}"
    return f"probability of {name}" if fit.is_binary else f"predicted {name}"


def _printed(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _draw_curve(ax: Any, x: NDArray[np.float64], effect: Effect, alpha: float) -> None:
    """Draw a curve with its band, and a hatched area where the interval is unbounded."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    bounded = np.isfinite(effect.lower) & np.isfinite(effect.upper)
    hidden = ~bounded  # a piece of the band needs both of its ends
    hidden[1:] |= ~bounded[:-1]
    hidden[:-1] |= ~bounded[1:]
    look: dict[str, Any] = {"color": COLORS[0], "linestyle": "-" if bounded.any() else ":"}
    handles: list[Any] = [Line2D([], [], linewidth=LINE, label="estimate", **look)]
    ax.plot(x, effect.mean, color=COLORS[0], linewidth=LINE / 2, linestyle=":")
    ax.plot(x, np.where(bounded, effect.mean, np.nan), color=COLORS[0], linewidth=LINE, gid="estimate")
    style: dict[str, Any] = {"color": COLORS[0], "alpha": 0.2, "linewidth": 0}
    if bounded.any():
        ax.fill_between(x, effect.lower, effect.upper, where=bounded, gid="band", **style)
        handles.append(Patch(label=f"pointwise {100 * (1 - alpha):g}% interval, privacy noise included", **style))
    if hidden.any():
        style = {"facecolor": "none", "edgecolor": "0.7", "hatch": "////", "linewidth": 0.0}
        ax.fill_between(x, 0, 1, where=hidden, transform=ax.get_xaxis_transform(), gid="unbounded", **style)
        handles.append(Patch(label="unbounded interval", **style))
    ax.margins(x=0.0)
    legend_below(ax, handles, 2)
