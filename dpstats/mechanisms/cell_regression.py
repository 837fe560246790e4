"""Regression on weighted rows at the centres of cells, for the baselines that release a histogram."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpstats.release.filtered import WeightedCells
from dpstats.specification.cells import CellGrid
from dpstats.specification.features import Features

Family = Literal["linear", "logistic"]
CHUNK = 500_000


def regress(features: Features, grid: CellGrid, sample: WeightedCells, family: Family) -> NDArray[np.float64]:
    """Regress on a weighted row at the centre of each cell.

    Parameters
    ----------
    features : Features
        The model's columns.
    grid : CellGrid
        The cells.
    sample : WeightedCells
        Released cells with their weights.
    family : {"linear", "logistic"}
        Least squares, or a logit.

    Returns
    -------
    ndarray
        Coefficients in raw units, shape (q,).
    """
    starts = range(0, len(sample.cells), CHUNK)
    chunks = ((sample.cells[s : s + CHUNK], sample.weights[s : s + CHUNK]) for s in starts)
    d = features.n_features
    if family == "linear":
        total = np.zeros((d + 1, d + 1))
        for cells, weights in chunks:
            rows = _centres(features, grid, cells)
            total += rows.T @ (weights[:, None] * rows)
        solution = np.linalg.lstsq(total[:d, :d], total[:d, d], rcond=None)[0]
        return features.raw_coefficients(np.asarray(solution))
    rows = np.concatenate([np.empty((0, d + 1)), *(_centres(features, grid, cells) for cells, _ in chunks)])
    return features.raw_coefficients(_weighted_logit(rows, sample.weights) / features.half)


def _centres(features: Features, grid: CellGrid, cells: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return features and coded outcome of rows at the centres of cells, shape (n, d + 1)."""
    coded = features.row_map.code(grid.rows(cells), len(cells))
    return np.asarray(coded.columns @ features.combine.T)


def _weighted_logit(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the maximum-likelihood coefficients; zeros where there is nothing to fit."""
    from statsmodels.genmod.families import Binomial
    from statsmodels.genmod.generalized_linear_model import GLM

    if not len(rows):
        return np.zeros(rows.shape[1] - 1)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model = GLM((rows[:, -1] + 1) / 2, rows[:, :-1], family=Binomial(), freq_weights=weights)
        return np.asarray(model.fit(maxiter=25).params, dtype=np.float64)
