"""The picture of an account: what was spent by which fit, and what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import OptionError, shown
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.notions import Budget
from dpstats.results.axes import COLORS, axes_for, label_rows, legend_below, plain, right_column, width_for

MOST_ENTRIES = 25
"""Longer histories show their first entries as one."""


def plot_budget(ledger: Ledger, ax: Any = None) -> Any:
    """Draw what was spent from a ledger, entry by entry, and what remains; needs the ``plot`` extra.

    Each bar starts where the one before ends, so that the last reaches the total. A hatched bar was reserved and never
    committed, because the fit failed or was interrupted; it counts.

    Parameters
    ----------
    ledger : Ledger
        The account. Its history is public.
    ax : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    OptionError
        If `ledger` is no ledger.
    BudgetError
        If its file cannot be used.
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import tempfile, dpstats as dps
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = dps.Ledger(f"{folder}/adult.budget", epsilon=3, dataset="adult")
    ...     ax = dps.plot_budget(ledger)
    >>> ax.get_xlabel()
    'epsilon spent, of 3'
    """
    if not isinstance(ledger, Ledger):
        raise OptionError(
            f"ledger must be a dpstats.Ledger, as in dps.Ledger('data.budget', epsilon=3), not {shown(ledger)}"
        )
    spends, costs, pending = _entries(ledger)
    names, sizes = [*spends, "remaining"], np.array([*costs, _amount(ledger.remaining())])
    ax = axes_for(ax, "plot_budget", width_for(names) + 0.8, 1.6 + 0.3 * len(names))
    total = float(sizes.sum())
    ax.set_xlabel(f"{ledger.currency} spent, of {total:.4g}")
    _draw_bars(ax, sizes, pending)
    ax.axvline(total, color="0.3", linewidth=1, linestyle="--")
    ax.set_xlim(0.0, 1.02 * total)
    label_rows(ax, names)
    right_column(ax, ledger.currency, [f"{size:.4g}" for size in sizes])
    ax.set_title(plain(ledger.dataset or ledger.path.name))
    return ax


def _draw_bars(ax: Any, sizes: NDArray[np.float64], pending: list[bool]) -> None:
    """Draw one bar after the other, the last for what remains."""
    from matplotlib.patches import Patch

    starts = np.cumsum(sizes) - sizes
    kinds: dict[str, dict[str, Any]] = {
        "spent": {"facecolor": COLORS[0], "edgecolor": COLORS[0]},
        "reserved, never committed": {"facecolor": "white", "edgecolor": COLORS[0], "hatch": "/////"},
        "remaining": {"facecolor": "0.85", "edgecolor": "0.6"},
    }
    drawn = ["reserved, never committed" if reserved else "spent" for reserved in pending] + ["remaining"]
    for row, (start, size, kind) in enumerate(zip(starts, sizes, drawn, strict=True)):
        ax.barh(row, size, left=start, height=0.7, **kinds[kind])
    handles = [Patch(label=kind, **style) for kind, style in kinds.items() if kind in drawn]
    legend_below(ax, handles, len(handles))


def _amount(budget: Budget) -> float:
    return float(budget.epsilon if budget.rho is None else budget.rho)  # type: ignore[arg-type]


def _entries(ledger: Ledger) -> tuple[list[str], list[float], list[bool]]:
    """Return names, costs and whether each was never committed, the oldest of a long history as one."""
    history = ledger.history()
    names, costs = history["what"].tolist(), history["cost"].tolist()
    pending = (history["state"] == "reserved").tolist()
    older = len(names) - MOST_ENTRIES
    if older < 2:
        return names, costs, pending
    return [f"{older} older fits", *names[older:]], [sum(costs[:older]), *costs[older:]], [False, *pending[older:]]
