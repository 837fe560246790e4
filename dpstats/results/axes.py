"""What all pictures share: matplotlib, where to draw, colours, and the mark of what is not private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpstats.errors import OptionError, shown

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart by colour-blind readers (Okabe and Ito 2008)."""
MARKERS = "osD^vPX"
ALARM = "#B00020"
MOST_TICKS = 5
"""Few enough for large numbers to stand side by side on a small picture."""


def axes_for(ax: Any, caller: str, width: float, height: float) -> Any:
    """Return the axes to draw on: those given, or those of a new figure.

    Parameters
    ----------
    ax : matplotlib.axes.Axes or None
        As the user gave it.
    caller : str
        The function that draws, for messages.
    width, height : float
        Size of a new figure, in inches.

    Raises
    ------
    ImportError
        Without matplotlib.
    OptionError
        If `ax` is something else.
    """
    try:
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes
    except ImportError:
        raise ImportError(f"{caller}() needs matplotlib: pip install 'dpstats[plot]'") from None
    if ax is None:
        ax = plt.subplots(figsize=(width, height), layout="constrained")[1]
        ax.locator_params(axis="x", nbins=MOST_TICKS)
        return ax
    if not isinstance(ax, Axes):
        raise OptionError(f"ax must be matplotlib Axes, as in fig, ax = plt.subplots(); not {shown(ax)}")
    return ax


def plain(text: object) -> str:
    """Return a text in which matplotlib sees no formula between dollar signs."""
    return str(text).replace("$", r"\$")


def mark_not_private(ax: Any) -> None:
    """Write NOT PRIVATE above the axes."""
    ax.set_title("NOT PRIVATE", loc="left", color=ALARM, fontsize="medium", fontweight="bold")


def legend_below(ax: Any, handles: list[Any], columns: int) -> None:
    """Put a legend below the label of the x axis, which is set before, so that it hides nothing.

    Its right end is that of the axes: to the left there is the room of the rows' names.
    """
    lines = 1 + ax.get_xlabel().count("\n")
    ax.legend(
        handles=handles,
        loc="upper right",
        bbox_to_anchor=(1.0, 0.0),
        borderaxespad=2.9 + 1.3 * lines,
        ncols=columns,
        frameon=False,
    )


def shortened(text: str, most: int = 52) -> str:
    """Return a text that fits beside an axis: head and tail, where the level of a coefficient stands."""
    return text if len(text) <= most else f"{text[: most // 2 - 2]} … {text[-(most // 2 - 1) :]}"


def label_rows(ax: Any, names: list[str]) -> None:
    """Let the y axis show one named row for each of 0, 1, ..., from top to bottom."""
    ax.set_yticks(range(len(names)), [plain(shortened(name)) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)


def width_for(names: list[str], labels: Sequence[str] = ()) -> float:
    """Return the width of a figure, in inches, whose rows have these names and whose legend has these labels."""
    longest = max((len(label) for label in labels), default=0)
    return max(4.6 + 0.085 * max(len(shortened(name)) for name in names), 4.0 + 0.085 * longest)


def right_column(ax: Any, header: str, texts: list[str]) -> None:
    """Write a text to the right of each row, under a header."""
    style = {"transform": ax.get_yaxis_transform(), "fontsize": "small", "color": "0.25"}
    ax.annotate(
        header, (1.0, 1.0), (4, 4), xycoords="axes fraction", textcoords="offset points", fontsize="small", color="0.25"
    )
    for row, text in enumerate(texts):
        ax.text(1.015, row, text, va="center", **style)
