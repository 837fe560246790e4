"""What one call of a fit function shows: how it ended, every number of its result, and the text it prints."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

SHOWN = ("params", "bse", "bse_sampling", "bse_privacy", "nobs", "scale", "rsquared")
"""Attributes of results that are computed when they are asked for."""
ERROR = "error "
CALLED = ("conf_int",)
LARGEST = 256
"""Longer arrays are public tables; their ends and moments stand for them."""
DEPTH = 12
NUMBER = re.compile(r"[\d.+\-\s]+(?:e[+-]?\d+)?")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call shows (zone: of the auditor; not private).

    Attributes
    ----------
    endings : tuple of str
        Names and shapes of what the result holds, or type and text of the error; warnings; words, numbers left out.
    numbers : dict of str to ndarray
        Every number that the result holds or computes, by where it was found.
    normal : ndarray or None
        Released sums with Gaussian noise, if the result has such, shape (K,).
    """

    endings: tuple[str, str, str]
    numbers: dict[str, NDArray[np.float64]]
    normal: NDArray[np.float64] | None


def observe(fit_function: Callable[[Any], Any], table: Any, statistic: Callable[[Any], Any] | None = None) -> Outcome:
    """Call a fit function once; an error or a warning is an outcome like any other.

    Parameters
    ----------
    fit_function : callable
        Takes the table.
    table : object
        Its argument.
    statistic : callable, optional
        What to look at in the result, instead of all of it.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = fit_function(table)
            shown = result if statistic is None else statistic(result)
        except Exception as error:
            ending = f"{ERROR}{type(error).__name__}: {error}"
            return Outcome((ending, _warned(caught), ""), {}, None)
        held = dict(_parts(shown if statistic else _whole(result), "", set(), 0))
        text = "" if statistic else _text(result)
    numbers = {path: part for path, part in held.items() if isinstance(part, np.ndarray)}
    said = " ".join([text, *(f"{path}={part}" for path, part in held.items() if path not in numbers)])
    numbers["text"] = np.array([len(text), text.count("inf"), text.count("nan")], dtype=float)
    layout = " ".join(f"{path}{numbers[path].shape}" if path in numbers else path for path in held)
    return Outcome((layout, _warned(caught), NUMBER.sub(" ", said)), numbers, None if statistic else _normal(result))


def _warned(caught: list[warnings.WarningMessage]) -> str:
    return "; ".join(sorted(f"{warning.category.__name__}: {warning.message}" for warning in caught))


def _whole(result: Any) -> dict[str, Any]:
    """Return what a result holds, with what it computes when asked."""
    found: dict[str, Any] = {}
    for name in SHOWN:
        with suppress(Exception):
            found[name] = getattr(result, name)
    for name in CALLED:
        with suppress(Exception):
            found[name] = getattr(result, name)()
    return {"type": type(result).__name__, **found, "held": result}


def _text(result: Any) -> str:
    with suppress(Exception):
        return str(result.summary())
    return str(result)


def _normal(result: Any) -> NDArray[np.float64] | None:
    """Return the sums of a moment release with Gaussian noise; no other result's numbers are exactly normal."""
    moments: Any = getattr(getattr(result, "release", result), "moments", None)
    values, variances = getattr(moments, "values", None), getattr(moments, "variances", None)
    if getattr(moments, "law", None) != "gaussian" or not isinstance(variances, np.ndarray):
        return None
    return np.asarray(values, dtype=np.float64)[variances > 0]


def _digest(array: NDArray[np.float64]) -> NDArray[np.float64]:
    flat = array.ravel()
    if len(flat) <= LARGEST:
        return flat
    return np.concatenate([flat[: LARGEST // 2], flat[-LARGEST // 2 :], [flat.sum(), np.abs(flat).sum()]])


def _parts(value: Any, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    """Yield arrays of numbers, and words, that can be reached from an object."""
    if isinstance(value, str | bytes | bool) or value is None:
        yield path, value
    elif isinstance(value, Real | np.number):
        yield path, np.array([float(value)])
    elif isinstance(value, pd.Series | pd.DataFrame | pd.Index | np.ndarray):
        yield from _array_parts(value, path)
    elif id(value) not in seen and depth < DEPTH and not isinstance(value, type) and not callable(value):
        seen.add(id(value))
        for name, part in _members(value):
            yield from _parts(part, f"{path}.{name}", seen, depth + 1)


def _array_parts(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    array = np.asarray(value)
    if array.dtype.kind in "biuf":
        yield path, _digest(array.astype(np.float64))
    else:
        yield path, array.ravel()[:LARGEST].tolist()
    if isinstance(value, pd.Series | pd.DataFrame):
        yield f"{path}.index", list(value.index)[:LARGEST]


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(i), part) for i, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield "set", sorted(map(str, value))
    elif is_dataclass(value):
        yield "type", type(value).__name__
        yield from ((field.name, getattr(value, field.name, None)) for field in fields(value))
    else:
        yield "type", type(value).__name__
        yield from dict(getattr(value, "__dict__", {})).items()
