"""Private rows to clipped squared scores at a released parameter, as exact integer sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.records.rows import combine_columns, lattice_rows
from dpstats.records.source import Partition, Source
from dpstats.specification.forms import Forms
from dpstats.specification.rowmap import RowMap


def sum_squared_scores(
    source: Source,
    row_map: RowMap,
    bits: int,
    forms: Forms,
    residual: NDArray[np.float64],
    clip: float,
    ranges: NDArray[np.float64],
    steps: int,
) -> NDArray[np.int64]:
    """Return sum_i (l'z_i)^2 psi_c(r_i)^2 for each form l, in units of its range / steps (zone: PRIVATE).

    Parameters
    ----------
    source : Source
        The table.
    row_map : RowMap
        From raw to coded columns, the response last.
    bits : int
        Lattice of the coded columns.
    forms : Forms
        Of regressors.
    residual : ndarray
        Coefficients of the residual on a coded row, shape (D,).
    clip : float
        Residuals are clipped to [-clip, clip].
    ranges : ndarray
        Largest term of one row, one for each form.
    steps : int
        Each row's term is rounded to {0, ..., steps}, and clipped to it, whatever the floating-point errors were.
    """

    def partition_sum(partition: Partition) -> NDArray[np.int64]:
        rows, _ = lattice_rows(partition, row_map, bits)
        rows *= 2.0**-bits
        clipped = np.clip(combine_columns(rows, residual), -clip, clip) ** 2
        squares = forms.squares(lambda form: combine_columns(rows, form))
        terms = [
            whole_steps(square * clipped * (steps / size), steps).sum()
            for square, size in zip(squares, ranges, strict=True)
        ]
        return np.array(terms, dtype=np.int64)

    return source.map_reduce(row_map.variables, partition_sum, lambda a, b: a + b)


def whole_steps(terms: NDArray[np.float64], steps: int) -> NDArray[np.int64]:
    """Round to {0, ..., steps}; this clip, not the bound on the terms, is what limits a row's effect."""
    return np.fmax(np.fmin(np.rint(terms), steps), 0).astype(np.int64)
