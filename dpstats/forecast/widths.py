"""Expected widths of intervals, from a planned release and guesses about the table."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd

from dpstats.errors import OptionError, shown
from dpstats.forecast.moments import Reference
from dpstats.inference.diagnostics import word_for_signal
from dpstats.inference.moment_test import Contrast
from dpstats.specification.design import Design
from dpstats.specification.schema import Continuous

SD_X = 0.3
"""Standard deviation of a continuous column that nobody guessed, in units of half its range."""
LARGEST_FACTOR = 1e6


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned release, with the inference that it would allow (zone: public).

    Attributes
    ----------
    method : str
        What would be released, and with which noise.
    contrasts : callable
        Maps guesses about a table to the inference about every coefficient.
    """

    method: str
    contrasts: Callable[[Reference], list[Contrast]]


def width_table(design: Design, planned: Planned, reference: Reference) -> pd.DataFrame:
    """Return width, signal and its word for every coefficient.

    Parameters
    ----------
    design : Design
        The model.
    planned : Planned
        What would be released.
    reference : Reference
        Guesses about the table.
    """
    found = planned.contrasts(reference)
    rows = [(_width(c), c.signal_to_noise, word_for_signal(c.signal_to_noise)) for c in found]
    return pd.DataFrame(rows, columns=["width", "signal", "forecast"], index=design.exog_names)


def _width(contrast: Contrast) -> float:
    """Return the expected width of the 95 % interval relative to one without noise."""
    low, high = contrast.interval(0.05)
    return (high - low) / (2 * 1.959964 * math.sqrt(contrast.sampling)) if contrast.sampling > 0 else math.inf


def typical_width(table: pd.DataFrame) -> float:
    """Return the median width of the slopes, or of all coefficients if there are none."""
    slopes = table["width"].drop("Intercept", errors="ignore")
    return float((slopes if len(slopes) else table["width"]).median())


def tighter_widths(design: Design, planned: Planned, reference: Reference) -> pd.Series:
    """Return the median width with the bounds of one column halved, by column.

    That doubles the column's spread in coded units, to a uniform one at most.

    Parameters
    ----------
    design, planned, reference
        As for `width_table`.
    """
    found = {}
    continuous = [name for name in design.variables if isinstance(design.schema[name], Continuous)]
    for name in continuous:
        if name in design.response.symbol.variables:
            changed = replace(reference, sd_y=min(2 * reference.sd_y, 0.577))
        else:
            sd = {k: _sd_of(reference, k) * (2 if k == name else 1) for k in continuous}
            changed = replace(reference, sd_x=sd)
        found[name] = typical_width(width_table(design, planned, changed))
    return pd.Series(found, dtype=float)


def _sd_of(reference: Reference, name: str) -> float:
    return reference.sd_x if isinstance(reference.sd_x, float) else reference.sd_x.get(name, SD_X)


def smallest_factor(width_at: Callable[[float], float], wanted: float) -> float:
    """Return the smallest factor, to about 1 %, at which the width falls to what is wanted.

    Parameters
    ----------
    width_at : callable
        Maps a factor of the rows or of the budget to a width.
    wanted : float
        Width relative to a non-private interval; above 1.

    Raises
    ------
    OptionError
        If no factor up to a million does.
    """
    if isinstance(wanted, bool) or not isinstance(wanted, int | float) or not wanted > 1:
        raise OptionError(
            f"width is relative to a non-private interval and must be above 1, as in 1.25; not {shown(wanted)}"
        )
    low, high = 1e-6, 1.0
    while width_at(high) > wanted:
        low, high = high, high * 4
        if high > LARGEST_FACTOR:
            raise OptionError(f"no table or budget up to a million times larger gives a width of {wanted:g}")
    low = max(low, high / 4**10)
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if width_at(middle) <= wanted else (middle, high)
    return high
