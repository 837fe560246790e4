"""Scores of outcomes, trained to tell two tables apart: one for each number, and linear ones of all numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.audits.outcomes import Outcome

RIDGES = (1e-9, 1e-2, 1.0)
FAR = 1e9
STILL = 1e-9
"""Least spread that a column is taken to have."""
Matrix = NDArray[np.float64]
Score = Callable[[Matrix], NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Columns:
    """Which numbers of an outcome are looked at, learned on training runs (zone: of the auditor).

    Attributes
    ----------
    places : tuple of (str, int)
        Where numbers were found, and how many of them.
    centers, scales : ndarray
        Medians and typical distances from them, shape (f,).
    varying : ndarray of bool
        Numbers that differ between runs, shape (f,).
    """

    places: tuple[tuple[str, int], ...]
    centers: NDArray[np.float64]
    scales: NDArray[np.float64]
    varying: NDArray[np.bool_]

    @property
    def names(self) -> list[str]:
        """What each column of `matrix` is."""
        all_names = [f"{place.lstrip('.')}[{k}]" for place, size in self.places for k in range(size)]
        kept = [name for name, varies in zip(all_names, self.varying, strict=True) if varies]
        return [*kept, *(f"{name} is finite" for name in kept)]

    def matrix(self, outcomes: Sequence[Outcome]) -> Matrix:
        """Return standardised numbers, and which of them are finite: shape (runs, 2 f)."""
        raw = _raw(outcomes, self.places)[:, self.varying]
        finite = np.isfinite(raw)
        standard = np.where(finite, raw, np.sign(np.nan_to_num(raw)) * FAR)
        standard = np.where(finite, (standard - self.centers) / self.scales, np.clip(standard, -FAR, FAR))
        return np.hstack([np.clip(standard, -FAR, FAR), finite])


def _raw(outcomes: Sequence[Outcome], places: Sequence[tuple[str, int]]) -> Matrix:
    width = sum(size for _, size in places)
    found = np.full((len(outcomes), width), np.nan)
    for row, outcome in zip(found, outcomes, strict=True):
        start = 0
        for place, size in places:
            numbers = outcome.numbers.get(place)
            if numbers is not None and len(numbers) == size:
                row[start : start + size] = numbers
            start += size
    return found


def learn_columns(outcomes: Sequence[Outcome]) -> Columns:
    """Find the numbers of training runs that vary, with their centres and scales."""
    sizes: dict[str, int] = {}
    for outcome in outcomes:
        for place, numbers in outcome.numbers.items():
            sizes.setdefault(place, len(numbers))
    places = tuple(sizes.items())
    raw = _raw(outcomes, places)
    varying = np.array([len(np.unique(column)) > 1 for column in raw.T], dtype=bool)
    centers, scales = [], []
    for column in raw[:, varying].T:
        usual = column[np.isfinite(column)]
        center = float(np.median(usual)) if len(usual) else 0.0
        spread = np.abs(usual - center)
        scale = float(np.median(spread)) if len(usual) else 1.0
        centers.append(center)
        scales.append(scale or float(spread.mean()) or 1.0)
    return Columns(places, np.array(centers), np.array(scales), varying)


def scores(first: Matrix, second: Matrix, names: Sequence[str]) -> Iterator[tuple[str, Score]]:
    """Yield scores trained on two tables' runs, with what they are.

    Parameters
    ----------
    first, second : ndarray
        Shape (runs, f), from `Columns.matrix`.
    names : sequence of str
        Of the columns.

    Notes
    -----
    Linear discriminants with several ridges, of the numbers, of the numbers between the two tables' medians (the log
    likelihood ratio of Laplace noise), and of numbers drawn in at both ends (coefficients may have heavy tails).
    """
    for name, axis in zip(names, np.eye(len(names)), strict=True):
        yield name, _linear(_as_is, axis)
    ends = np.sort([np.median(first, axis=0), np.median(second, axis=0)], axis=0)

    def clipped(x: Matrix) -> Matrix:
        return np.clip(x, ends[0], ends[1])

    shapes = {
        "linear score": _as_is,
        "linear score of drawn-in numbers": _drawn_in,
        "linear score of clipped numbers": clipped,
    }
    for words, shape in shapes.items():
        for ridge in RIDGES:
            yield words, _linear(shape, _discriminant(shape(first), shape(second), ridge))
    yield "sum of clipped numbers", _linear(clipped, np.sign(np.median(first, axis=0) - np.median(second, axis=0)))


def _as_is(x: Matrix) -> Matrix:
    return np.clip(x, -1e6, 1e6)


def _drawn_in(x: Matrix) -> Matrix:
    return np.arctan(x / 3)


def _linear(shape: Callable[[Matrix], Matrix], weights: NDArray[np.float64]) -> Score:
    return lambda x: shape(x) @ weights


def _discriminant(first: Matrix, second: Matrix, ridge: float) -> NDArray[np.float64]:
    """Return Fisher's direction with a ridge, relative to the columns' spreads."""
    gap = first.mean(axis=0) - second.mean(axis=0)
    within = np.vstack([first - first.mean(axis=0), second - second.mean(axis=0)])
    sizes = np.maximum(np.sqrt((within**2).mean(axis=0)), STILL)
    scaled = within / sizes
    _, s, vt = np.linalg.svd(scaled, full_matrices=False)
    inside = vt @ (gap / sizes)
    spread = s**2 / len(within)
    outside = gap / sizes - vt.T @ inside
    direction = vt.T @ (inside / (spread + ridge)) + outside / ridge
    return np.asarray(direction / sizes, dtype=np.float64)
